"""The aggregates of ESL's paper (Bai et al., CIKM 2006), as it prints them, for tests in process and on a cluster."""

EXAMPLE_4 = "SELECT decay_online_avg(price) FROM ClosedAuction"
EXAMPLE_7 = """
CREATE AGGREGATE avg(Next Real) : Real
{
TABLE state(tsum Real, cnt Int);
INITIALIZE : { INSERT INTO state VALUES (Next, 1); }
ITERATE : { UPDATE state SET tsum=tsum+Next, cnt=cnt+1; }
TERMINATE : { INSERT INTO RETURN
SELECT tsum/cnt FROM state; }
}
"""
EXAMPLE_8 = """
CREATE AGGREGATE decay_online_avg(Next Real) : Real
{
TABLE state(tsum Real, cnt Int);
INITIALIZE : {
INSERT INTO state VALUES (Next, 1);
INSERT INTO RETURN VALUES (Next); }
ITERATE: {
UPDATE state SET tsum= 0.9*tsum + 1.1*Next, cnt=cnt+1;
INSERT INTO RETURN SELECT tsum/cnt FROM state; }
}
"""
EXAMPLE_9 = """
CREATE STREAM AskdPrice AS
  SELECT sellerID, decay_online_avg(price) AS avg_price
  FROM OpenAuction GROUP BY sellerID
"""
EXAMPLE_10 = """
CREATE AGGREGATE cum_avg(Next Real) : Real
{
  TABLE state(tsum Real, cnt Int);
  INITIALIZE : {
    INSERT INTO state VALUES (Next, 1);
    INSERT INTO RETURN SELECT tsum/cnt FROM state;
  }
  ITERATE : {
    UPDATE state SET tsum=tsum+Next, cnt=cnt+1;
    INSERT INTO RETURN SELECT tsum/cnt FROM state;
  }
  TERMINATE : { }
}
"""
EXAMPLE_11 = """
CREATE WINDOW AGGREGATE avg(Next Real) : Real
{
  TABLE inwindow(wnext Real);
  INITIALIZE: ITERATE: {
    INSERT INTO RETURN
      SELECT avg(wnext) FROM inwindow;
  }
}
"""
EXAMPLE_12 = """
CREATE WINDOW AGGREGATE myavg(Next Real) : Real
{
  TABLE state(tsum Int, cnt Real);
  TABLE inwindow(wnext Real);
  INITIALIZE : {
    INSERT INTO state VALUES (Next, 1);
    INSERT INTO RETURN VALUES (Next);
  }
  ITERATE : {
    UPDATE state SET tsum=tsum+Next, cnt=cnt+1;
    INSERT INTO RETURN SELECT tsum/cnt FROM state;
  }
  EXPIRE: { /* when there are expired tuples take the oldest */
    UPDATE state SET cnt= cnt-1, tsum = tsum - oldest().wnext;
  }
}
"""
#: Section 5.2: the EXPIRE of `myavg` for active expiration.
ACTIVE_AVERAGE = EXAMPLE_12.replace(
    "tsum = tsum - oldest().wnext;",
    "tsum = tsum - oldest().wnext;\n    INSERT INTO RETURN\n    SELECT tsum/cnt FROM state;",
)
EXAMPLE_13 = """
CREATE WINDOW AGGREGATE max (Next Real) : Real
{
  TABLE inwindow(wnext real);
  INITIALIZE : {
    INSERT INTO RETURN VALUES (Next);
  } /* new tuples are added to inwindow automatically */
  ITERATE : {
    DELETE FROM inwindow WHERE wnext ≤ Next;
    INSERT INTO RETURN VALUES (oldest());
  }
  EXPIRE: { } /* expired tuples are removed automatically */
}
"""
EXAMPLE_14 = """
SELECT itemID, sum(bid.price)
OVER(PARTITION BY itemID
ROWS 49 PRECEDING SLIDE 10)
FROM Bid
"""
EXAMPLE_15 = """
CREATE STREAM temp AS (
  SELECT itemID, sum(bid.price) AS s
    OVER(PARTITION BY itemID ROWS 9
         PRECEDING SLIDE 10)
  FROM Bid);
SELECT itemID, sum(s)
  OVER(PARTITION BY itemID ROWS 4 PRECEDING)
FROM temp
"""
EXAMPLE_16 = """
CREATE ALGEBRAIC WINDOW AGGREGATE
  max (Next Real): Real
{ TABLE inwindow(wnext real);
  INITIALIZE : {
    INSERT INTO RETURN VALUES (Next);
  } /* new tuples added to inwindow automatically */
  ITERATE : {
    DELETE FROM inwindow WHERE wnext ≤ Next;
  }
  EXPIRE: { /*expired tuples removed automatically*/
    INSERT INTO RETURN VALUES (oldest()) }
}
"""
#: The paper describes example 17 in words: a new group begins after a gap of more than two seconds.
EXAMPLE_17 = """
CREATE AGGREGATE product_group(tagtime timestamp): int {
  TABLE last(seen timestamp, number int);
  INITIALIZE: {
    INSERT INTO last VALUES (tagtime, 1);
    INSERT INTO RETURN VALUES (1);
  }
  ITERATE: {
    UPDATE last SET number = number + 1 WHERE tagtime > seen + INTERVAL '2' SECOND;
    UPDATE last SET seen = tagtime;
    INSERT INTO RETURN SELECT number FROM last;
  }
}
"""
TAG_READINGS = "CREATE STREAM tag_readings (tagid char(10), tagtype char(10), tagtime timestamp) ORDER BY tagtime"
EXAMPLE_18 = """
CREATE STREAM larceny-in-progress AS (
SELECT tagid, tagtime, item_alarm(tagid, tagtype, tagtime) OVER
(RANGE 5 SECONDS PRECEDING ACTIVE EXPIRATION)
FROM tag_readings);
"""
ITEM_ALARM = """
AGGREGATE item_alarm(tagid, tagtype, tagtime):char
{
TABLE inwindow(tid, ttype, ttime);
INITIALIZE: ITERATE: {
DELETE FROM inwindow
WHERE tagtype = 'ap' AND ttype = 'item';
DELETE FROM inwindow
WHERE tagtype = 'item' AND ttype = 'item' AND EXISTS
(SELECT tid FROM inwindow WHERE ttype = 'ap'); }
EXPIRE: {
INSERT INTO RETURN VALUES ('larceny alarm')
WHERE tagtype = 'item' AND NOT EXISTS
(SELECT tid FROM inwindow WHERE ttype='ap'); }
}
"""
#: (seconds, tag, kind): an item alone; one behind a person; one before a person; two without a person near enough.
READINGS = [
    (1, "i1", "item"),
    (10, "p1", "ap"), (12, "i2", "item"),
    (20, "i3", "item"), (23, "p2", "ap"),
    (30, "i4", "item"), (36, "p3", "ap"),
    (42, "i5", "item"),
]  # fmt: skip
#: The alarms: the tag, and the last second at which it is in the window; the alarm is a millisecond later.
ALARMS = [("i1", 6), ("i4", 35), ("i5", 47)]
