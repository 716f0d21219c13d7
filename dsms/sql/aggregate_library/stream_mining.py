"""Aggregates over streams that the papers of Stream Mill and their sources describe."""

DECAY = """
CREATE AGGREGATE decay_avg(next DOUBLE, factor DOUBLE): DOUBLE {
  TABLE state(total DOUBLE, weight DOUBLE);
  INITIALIZE: {
    INSERT INTO state VALUES (next, 1.0);
    INSERT INTO RETURN VALUES (next);
  }
  ITERATE: {
    UPDATE state SET total = factor * total + next, weight = factor * weight + 1.0 WHERE next IS NOT NULL;
    INSERT INTO RETURN SELECT total / weight FROM state;
  }
}
"""

#: A sketch of 4 tables of at most 1024 counters: an item increments one counter in each, and the least of these
#: counters is its count or more.
_SKETCHES = range(4)
_HASHES = ", ".join(f"hash(item, {k}) % 1024" for k in _SKETCHES)
_COUNT = """
    IF EXISTS (SELECT hits FROM c{k} WHERE bucket = (SELECT b{k} FROM places))
      { UPDATE c{k} SET hits = hits + 1 WHERE bucket = (SELECT b{k} FROM places); }
    ELSE { INSERT INTO c{k} SELECT b{k}, 1 FROM places; }"""
_UNCOUNT = """
    UPDATE c{k} SET hits = hits - 1 WHERE bucket = hash(item, {k}) % 1024;"""


def _each(text: str, between: str = "") -> str:
    """A text for each sketch, with its number for {k}."""
    return between.join(text.replace("{k}", str(k)) for k in _SKETCHES)


FREQUENT = f"""
CREATE AGGREGATE approx_frequency(item): BIGINT {{
  TABLE places({_each("b{k} BIGINT", ", ")});
  {_each("TABLE c{k}(bucket BIGINT, hits BIGINT); ")}
  INITIALIZE: {{
    INSERT INTO places VALUES ({_HASHES});
    {_each("INSERT INTO c{k} SELECT b{k}, 1 FROM places; ")}
  }}
  ITERATE: {{
    UPDATE places SET {_each("b{k} = hash(item, {k}) % 1024", ", ")};{_each(_COUNT)}
  }}
  TERMINATE: {{
    INSERT INTO RETURN SELECT least({_each("(SELECT hits FROM c{k} WHERE bucket = b{k})", ", ")}) FROM places;
  }}
  EXPIRE: {{{_each(_UNCOUNT)}
  }}
}}
"""

#: Babcock et al., SODA 2002: samples the row with the highest random priority in a window, as `max` over priorities
#: that keeps the row.
PRIORITY = """
CREATE WINDOW AGGREGATE priority_sample(item, priority DOUBLE): item {
  TABLE inwindow(kept, rank);
  INITIALIZE: { INSERT INTO RETURN VALUES (item); }
  ITERATE: {
    DELETE FROM inwindow WHERE rank <= priority;
    INSERT INTO RETURN VALUES (oldest().kept);
  }
  EXPIRE: { }
}
"""

#: Datar et al., SODA 2002: counts ones in buckets of 1, 2, 4, … ones, at most two buckets of each size; only half of
#: the oldest bucket is counted.
ONES = """
CREATE AGGREGATE approx_ones(bit INT, width BIGINT): BIGINT {
  TABLE clock(now BIGINT, size BIGINT, grown BIGINT);
  TABLE buckets(size BIGINT, newest BIGINT);
  INITIALIZE: ITERATE: {
    INSERT INTO clock VALUES (0, 1, 0) WHERE NOT EXISTS (SELECT now FROM clock);
    UPDATE clock SET now = now + 1, size = 1;
    DELETE FROM buckets WHERE newest <= (SELECT now FROM clock) - width;
    INSERT INTO buckets SELECT 1, now FROM clock WHERE bit = 1;
    WHILE (SELECT count(*) FROM buckets, clock WHERE buckets.size = clock.size) > 2 {
      UPDATE clock SET grown = (
        SELECT newest FROM buckets, clock WHERE buckets.size = clock.size ORDER BY newest LIMIT 1);
      DELETE FROM buckets WHERE size = (SELECT size FROM clock) AND newest = (SELECT grown FROM clock);
      UPDATE clock SET grown = (
        SELECT newest FROM buckets, clock WHERE buckets.size = clock.size ORDER BY newest LIMIT 1);
      UPDATE buckets SET size = size * 2 WHERE size = (SELECT size FROM clock) AND newest = (SELECT grown FROM clock);
      UPDATE clock SET size = size * 2;
    }
    INSERT INTO RETURN SELECT coalesce(sum(size), 0) - coalesce(max(size), 0) / 2 FROM buckets;
  }
}
"""

#: Example 17 of ESL: numbers groups of readings; a reading more than `gap` seconds after the one before it starts a new
#: group.
GROUPING = """
CREATE AGGREGATE rfid_group(read_at TIMESTAMP, gap DOUBLE): INT {
  TABLE last(seen TIMESTAMP, number INT);
  INITIALIZE: {
    INSERT INTO last VALUES (read_at, 1);
    INSERT INTO RETURN VALUES (1);
  }
  ITERATE: {
    UPDATE last SET number = number + 1 WHERE epoch_us(read_at) - epoch_us(seen) > gap * 1000000;
    UPDATE last SET seen = read_at;
    INSERT INTO RETURN SELECT number FROM last;
  }
}
"""

#: Example 18 of ESL: with RANGE … ACTIVE EXPIRATION, reports an item that passed without an authorised person ('ap').
THEFT = """
CREATE WINDOW AGGREGATE theft_alarm(tag, kind VARCHAR): VARCHAR {
  TABLE inwindow(tagid, tagtype);
  INITIALIZE: ITERATE: {
    DELETE FROM inwindow WHERE kind = 'ap' AND tagtype = 'item';
    DELETE FROM inwindow WHERE kind = 'item' AND tagtype = 'item'
      AND EXISTS (SELECT tagid FROM inwindow WHERE tagtype = 'ap');
  }
  EXPIRE: {
    INSERT INTO RETURN VALUES ('theft')
      WHERE kind = 'item' AND NOT EXISTS (SELECT tagid FROM inwindow WHERE tagtype = 'ap');
  }
}
"""

#: Welford's algorithm, which does not lose digits if the mean is large; EXPIRE undoes a step.
VARIANCE = """
CREATE AGGREGATE running_variance(next DOUBLE): DOUBLE {
  TABLE state(present BIGINT, mean DOUBLE, spread DOUBLE);
  TABLE step(difference DOUBLE);
  INITIALIZE: {
    INSERT INTO state VALUES (0, 0.0, 0.0);
    INSERT INTO step VALUES (next);
    UPDATE state SET present = 1, mean = next WHERE next IS NOT NULL;
  }
  ITERATE: {
    UPDATE step SET difference = next - (SELECT mean FROM state);
    UPDATE state SET present = present + 1, mean = mean + (SELECT difference FROM step) / (present + 1)
      WHERE next IS NOT NULL;
    UPDATE state SET spread = spread + (SELECT difference FROM step) * (next - mean) WHERE next IS NOT NULL;
  }
  TERMINATE: {
    INSERT INTO RETURN SELECT CASE WHEN present > 1 THEN greatest(spread, 0.0) / (present - 1) END FROM state;
  }
  EXPIRE: {
    UPDATE step SET difference = next - (SELECT mean FROM state);
    UPDATE state SET mean = coalesce(mean - (SELECT difference FROM step) / (present - 1), 0.0), present = present - 1
      WHERE next IS NOT NULL;
    UPDATE state SET spread = spread - (SELECT difference FROM step) * (next - mean) WHERE next IS NOT NULL;
  }
}
"""

CONCATENATION = """
CREATE ALGEBRAIC AGGREGATE text_concat(next VARCHAR): VARCHAR {
  TABLE state(whole VARCHAR);
  INITIALIZE: { INSERT INTO state VALUES (next); }
  ITERATE: { UPDATE state SET whole = coalesce(whole || next, whole, next); }
  TERMINATE: { INSERT INTO RETURN SELECT whole FROM state; }
}
"""

#: Vitter's reservoir sample of at most `places` rows: row n replaces a random row of it with probability places / n.
RESERVOIR = """
CREATE AGGREGATE reservoir_sample(item, places INT): item {
  TABLE seen(rows BIGINT);
  TABLE sample(place BIGINT, kept item);
  INITIALIZE: {
    INSERT INTO seen VALUES (1);
    INSERT INTO sample VALUES (0, item) WHERE places > 0;
  }
  ITERATE: {
    UPDATE seen SET rows = rows + 1;
    INSERT INTO sample SELECT rows - 1, item FROM seen WHERE rows <= places;
    UPDATE sample SET kept = item WHERE place = (SELECT CAST(floor(random() * rows) AS BIGINT) FROM seen)
      AND (SELECT rows FROM seen) > places;
  }
  TERMINATE: { INSERT INTO RETURN SELECT kept FROM sample; }
}
"""

TEXTS = (DECAY, FREQUENT, PRIORITY, ONES, GROUPING, THEFT, VARIANCE, CONCATENATION, RESERVOIR)
