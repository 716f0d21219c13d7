"""Lists and structs."""

NESTED = [
    ("l[1]", 10),
    ("l[2]", 20),
    ("l[9]", None),
    ("l[-2]", 20),
    ("l[0]", None),
    ("l[i - 6]", 10),
    ("CARDINALITY(l)", 3),
    ("ARRAY_LENGTH(l)", 3),
    ("ARRAY_CONTAINS(l, 20)", True),
    ("ARRAY_CONTAINS(l, 21)", False),
    ("ARRAY[1, i, NULL]", [1, 7, None]),
    ("ARRAY[1, 2][2]", 2),
    ("st.city", "Bonn"),
    ("Q.st.city", "Bonn"),
    ("Q.ST.ZIP.Code", 53113),
    ("(st).zip.code", 53113),
    ("ROW(1, 'a')", {"f1": 1, "f2": "a"}),
    ("STRUCT(i AS a, s AS b)", {"a": 7, "b": "héllo"}),
    ("ARRAY_TO_STRING(ARRAY['a', n, 'b'], '+')", "a+b"),
    ("ARRAY[i / z]", '!division by zero in "i / z"'),
]
