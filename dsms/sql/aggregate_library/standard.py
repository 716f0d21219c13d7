"""The five aggregates of SQL, defined for windows of streams; GROUP BY uses its built-in functions instead."""

STANDARD = """
CREATE ALGEBRAIC AGGREGATE sum(next): next {
  TABLE state(total next, present BIGINT);
  INITIALIZE: { INSERT INTO state VALUES (coalesce(next, 0), CASE WHEN next IS NULL THEN 0 ELSE 1 END); }
  ITERATE: {
    UPDATE state SET total = total + next, present = present + 1 WHERE next IS NOT NULL;
  }
  TERMINATE: { INSERT INTO RETURN SELECT CASE WHEN present > 0 THEN total END FROM state; }
  EXPIRE: {
    UPDATE state SET total = total - next, present = present - 1 WHERE next IS NOT NULL;
  }
}

CREATE AGGREGATE count(next): BIGINT {
  TABLE state(present BIGINT);
  INITIALIZE: { INSERT INTO state VALUES (CASE WHEN next IS NULL THEN 0 ELSE 1 END); }
  ITERATE: { UPDATE state SET present = present + 1 WHERE next IS NOT NULL; }
  TERMINATE: { INSERT INTO RETURN SELECT present FROM state; }
  EXPIRE: { UPDATE state SET present = present - 1 WHERE next IS NOT NULL; }
}

CREATE AGGREGATE avg(next DOUBLE): DOUBLE {
  TABLE state(total DOUBLE, present BIGINT);
  INITIALIZE: { INSERT INTO state VALUES (coalesce(next, 0.0), CASE WHEN next IS NULL THEN 0 ELSE 1 END); }
  ITERATE: {
    UPDATE state SET total = total + next, present = present + 1 WHERE next IS NOT NULL;
  }
  TERMINATE: { INSERT INTO RETURN SELECT total / present FROM state; }
  EXPIRE: {
    UPDATE state SET total = total - next, present = present - 1 WHERE next IS NOT NULL;
  }
}

CREATE ALGEBRAIC AGGREGATE min(next): next {
  TABLE state(least next);
  INITIALIZE: { INSERT INTO state VALUES (next); }
  ITERATE: { UPDATE state SET least = next WHERE next < least OR least IS NULL; }
  TERMINATE: { INSERT INTO RETURN SELECT least FROM state; }
}

CREATE ALGEBRAIC WINDOW AGGREGATE min(next): next {
  TABLE inwindow(value);
  INITIALIZE: { INSERT INTO RETURN VALUES (next); }
  ITERATE: {
    DELETE FROM inwindow WHERE value >= next OR value IS NULL;
    INSERT INTO RETURN VALUES (oldest());
  }
  EXPIRE: { }
}

CREATE ALGEBRAIC AGGREGATE max(next): next {
  TABLE state(greatest next);
  INITIALIZE: { INSERT INTO state VALUES (next); }
  ITERATE: { UPDATE state SET greatest = next WHERE next > greatest OR greatest IS NULL; }
  TERMINATE: { INSERT INTO RETURN SELECT greatest FROM state; }
}

CREATE ALGEBRAIC WINDOW AGGREGATE max(next): next {
  TABLE inwindow(value);
  INITIALIZE: { INSERT INTO RETURN VALUES (next); }
  ITERATE: {
    DELETE FROM inwindow WHERE value <= next OR value IS NULL;
    INSERT INTO RETURN VALUES (oldest());
  }
  EXPIRE: { }
}
"""
