"""Text that is JSON, or nearly: values at limits, unusual notations, damaged records."""

from __future__ import annotations

import json

from hypothesis import strategies as st

_NUMBERS = """
0 -0 -0.0 0.0 -0e0 1 -1 127 128 -128 -129 32768 2147483647 2147483648 -2147483649 1.0 1e2 1E+2 1e-2 0.1 01 -01 .5
1. +1 - -a 1e 1e+ 0x1 1e400 -1e400 1e-400 1e22 1e23 1e27 1e28 9007199254740993 123456789012345678
9223372036854775807 9223372036854775808 -9223372036854775808 -9223372036854775809 9999999999999999999
18446744073709551615 18446744073709551616 123456789012345678901234567890 1.7976931348623157e308
1.7976931348623159e308 5e-324 3.4028235677973366e38 3.4028235e38 0.30000000000000004 2.2250738585072014e-308
999.99 1000 999.995 -999.99 1.500000 99999999999999999999999999999999999999 0.0000000001 0.00000000001
253402300799999 253402300800000 -62135596800000 -62135596800001 1e9999 1e10000 0e99999 NaN Infinity
1e999999999999999999 1e1000000000000000000
"""
_TEXTS = """
a abcdefghijkl abcdefghijklm ü 漢字漢字漢字漢字 𝄞𝄞𝄞𝄞𝄞 NaN Infinity 1.5 -7 1e2 +1 007 .5 1_0
2024-02-29 2023-02-29 2024-13-01 2024-00-10 2024-01-00 0000-01-01 0001-01-01 9999-12-31 10000-01-01 2024-1-01
2024/01/01 1900-02-29 2000-02-29 2024-02-29T12:34:56 2024-02-29T12:34:56Z 2024-02-29_12:34:56
2024-02-29t12:34:56.123456789z 2024-02-29T12:34:56.1234567890Z 2024-02-29T12:34:56,5Z 2024-02-29T12:34:56.Z
2024-02-29T24:00:00Z 2024-02-29T12:60:00Z 2024-02-29T12:34:60Z 2024-02-29T12:34Z 2024-02-29T12:34:56+01:00
2024-02-29T12:34:56-23:59 2024-02-29T12:34:56+24:00 2024-02-29T12:34:56+0100 2024-02-29T12:34:56+01
9999-12-31T23:59:59.999999-00:01 0001-01-01T00:00:00+00:01 0001-01-01T00:00:00Z 2024-02-29T12:34:56.5é ٢٠٢٤-٠١-٠١
"""
#: Values, one a line, that are no numbers and no plain texts; some are no JSON.
_ODD = r"""
"\ud834\udd1e"
"\ud834"
"\udd1e"
"\ud834x"
"\ud834\u0041"
"\ud834\ud834"
"\udbff\udfff\ud800\udc00"
"\u007f\u0080\u07ff\u0800\uffff"
"\u0000"
"\u00E9"
"\n\t\"\\\/\b\f\r"
"\x"
"\"
"\u12"
"\u12g4"
'a'
"a
nul
nulll
null
tru
true
truex
false
fals
True
[]
{}
[1,2]
[1,]
[,]
[1 2]
{"a":1}
{"a"}
{"a":}
{"a":1,}
{1:2}
[[[]]]
{"é":"\n"}
["\ud834"]
//
[1e1000000000000000000]
"""
_LONG = [
    "[" * 40 + "]" * 40, "[" * 31 + "]" * 31, '{"a":' * 33 + "1" + "}" * 33, "[" * 2000, "9" * 301, "9" * 5000,
    f'"{"x" * 3000}"', '"\0"', '"\x1f"', '"\x7f"', "", " ", '""', '" 1"', '"2024-02-29 12:34:56.1"',
]  # fmt: skip
_LISTED = [*_NUMBERS.split(), *map('"{}"'.format, _TEXTS.split()), *_ODD.strip().splitlines(), *_LONG]
_NO_UTF8 = [
    b"\xff", b"\x80", b"a\xc3", b"\xc0\x80", b"\xc1\xbf", b"\xe0\x9f\xbf", b"\xed\xa0\x80",
    b"\xed\x9f\xbf", b"\xee\x80\x80",
    b"\xe1\x80", b"\xe1\x80a", b"\xf0\x8f\xbf\xbf", b"\xf4\x8f\xbf\xbf", b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80",
    b"\xf1\x80\x80", b"\xf1\x80\x80a", b"eight by\xc3\xa9tes \xe6\xbc\xa2\xff", b"eight bytes, and then \xe6\xbc\xa2",
]  # fmt: skip
#: Records, one a line, in which the keys or the end matter.
_RECORDS = r"""
{"a":1}
{"A":2}
{"a":3,"a":4}
{"a":5,"A":6}
{"A":7,"a":8}
{"a":"x","a":9}
{"a":1,"x":2,"x":3}
{"a":1,"k":"x"}
{"a":1,"K":"x"}
{"a":1,"K":"x"}
{"a":1,"K":"x","k":"y"}
{"a":1,"k":"x","K":"y"}
{"a":1,"größe":1}
{"a":1,"GRÖSSE":2}
{"a":1,"grösse":3}
{"a":1,"Größe":4}
{"a":1,"größe":5,"GRÖSSE":6}
{"a":1,"漢":2}
{"\u0061":1}
{"a":1,"\u0061":2}
{"a":1,"k\u0000":2}
{"a":1}}
{"a":1} {}
{"a":1},
{"a":1
{"a":1,
{"a":1,}
{"a":
{"a"
{"a
{
{}
{,}
{"a":1 "k":2}
{"a" 1}
{"a"::1}
{"a":1;}
[{"a":1}]
{{"a":1}}
{"a":1,null}
{"a":1,"x"}
{"a":1,"k":null,"größe":null}
{"a":null}
{"a":1,"x":{"a":"no","k":5}}
{"a":1,"k":{}}
{"a":1,"":2}
{a:1}
{'a':1}
{"a":1}#
{"a":1/**/}
{"a":1,"x":[}
"""
LISTED_RECORDS = [
    *_RECORDS.strip().splitlines(),
    '{"a":1,"x":' + "[" * 1_000_000,
    '{"a":1}\x00',
    '{"a":1} \n',
    "",
    " ",
    '\ufeff{"a":1}',
    '\x00{"a":1}',
]
_DRAWN = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(allow_nan=False, allow_infinity=False, places=3).map(str),
    st.integers(-(2**65), 2**65).map(str),
    st.text().map(json.dumps),
    st.text().map(lambda text: json.dumps(text, ensure_ascii=False)),
)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


#: Values as bytes: all that are listed above, and drawn ones.
LISTED = [*map(_encoded, _LISTED), *(b'"%b"' % text for text in _NO_UTF8)]
VALUES = st.sampled_from(LISTED) | _DRAWN.map(_encoded)
#: Values that are usual in records.
_USUAL = st.sampled_from([b"5", b"-3", b"2.5", b'"text"', b'"2024-02-29T12:34:56Z"', b"true", b"null", b"[1, {}]"])
#: Names of columns; some keys below differ from them only in case.
NAMES = ["a", "b", "dateTime", "datetime", "k", "s", "größe", "B", "\u212a"]
_KEYS = [
    *map('"{}"'.format, [*NAMES, "A", "GRÖSSE", "\u017f", "x", "", "\\u0061", "a\0", "\\n", "漢"]),
    "a",
    "'a'",
    "1",
]
#: How a record differs from an object in the usual notation; a record has one of these faults, or none.
_FAULTS = ["none", "none", "none", "cut", "bytes", "utf-16", "space", "marks", "open", "close", "twice", "key"]
_SPACE = st.sampled_from([b" ", b"\n\t\r ", b"\f", b"\xc2\xa0", b"/**/", b"\0"])
_MARKS = st.sampled_from([(b": ", b", "), (b" :\n", b"\t,"), (b":", b",,"), (b"=", b","), (b":", b" ")])
_OPEN = st.sampled_from([b"{ ", b"", b"[", b"{,", b"{{", b"\xef\xbb\xbf{"])
_CLOSE = st.sampled_from([b" }", b",}", b"", b"]", b"}}", b"} {}", b"},"])


@st.composite
def records(draw):
    """A record that is a JSON object, or nearly."""
    fault = draw(st.sampled_from(_FAULTS))
    keys = draw(st.lists(st.sampled_from(_KEYS).map(_encoded), max_size=5, unique=fault != "twice"))
    if fault == "key":
        keys.append(b'"gr\xff"')
    members = [(key, draw(_USUAL | VALUES)) for key in keys]
    colon, comma = draw(_MARKS) if fault == "marks" else (b":", b",")
    space = draw(_SPACE) if fault == "space" else b""
    before, after = draw(_OPEN) if fault == "open" else b"{", draw(_CLOSE) if fault == "close" else b"}"
    text = space + before + comma.join(key + colon + value for key, value in members) + after + space
    at = draw(st.integers(0, len(text)))
    if fault == "cut":
        return text[:at]
    if fault == "bytes":
        return text[:at] + draw(st.binary(max_size=3)) + text[at + draw(st.integers(0, 3)) :]
    return text.decode("utf-8", "replace").encode("utf-16") if fault == "utf-16" else text
