-- Statements as the papers print them. A line that starts with two dashes names paper and number; a blank line ends a
-- statement. Changed are only: ℜ with a subscript (ℜ_Sync₂), typographic quotation marks, S' (a second stream: S2), and
-- marks of the text recognition. Schematic letters (L, C, T, Q) stand for what they stand for in the paper.

-- SyncSQL example 1
REGISTER SOURCE TemperatureSource (char RoomID, int Temperature) From port5501

-- SyncSQL example 1
RoomTempStr: CREATE STREAM RoomTempStr OVER TemperatureSource KEY RoomID

-- SyncSQL example 1
TempStr: CREATE STREAM TempStr OVER TemperatureSource KEY NULL

-- SyncSQL example 3 (Q3)
select STREAMED RoomID, Temperature
from ℜ(RoomTempStr) R
where R.Temperature > 80

-- SyncSQL example 4 (Q4)
select STREAMED RoomID, Temperature
from ℜ(RoomTempStr) R
where R.Temperature > 100

-- SyncSQL example 4
create STREAMED view HotRooms₁ as
select RoomID, Temperature
from ℜ(RoomTempStr) R
where R.Temperature > 80

-- SyncSQL example 4 (Q3 over the view)
Q3: select STREAMED RoomID, Temperature from ℜ(HotRooms₁) R

-- SyncSQL example 5
create STREAMED view FiveUnitsWindow as
select *
from ℜ(S) R
where Now - 5 < R.TS ≤ Now

-- SyncSQL example 6
select STREAMED COUNT(*)
from ℜ(FiveUnitsWindow)
groupby CarType

-- SyncSQL example 8
create STREAMED view HotRooms₁ As
select RoomID, Temperature
from ℜ_Sync₂(RoomTempStr) R
where R.Temperature > 80

-- SyncSQL example 10
create STREAMED view Sync₂ As
select C.Timepoint
from ℜ(clockStr) C
where C.Timepoint mod 2 = 0

-- SyncSQL example 11
create STREAMED view UnionSyncStr as
select DISTINCT(Timepoint)
from ℜ(Sync₂) S₂ ∪ ℜ(Sync₅) S₅

-- SyncSQL example 12
create STREAMED view HotSync as
select R.TS
from ℜ(TempStr) R
where R.Temperature > 120

-- SyncSQL example 13
create STREAMED view NowView as
select 1 as KEY, MAX(T.Timepoint) as currTime
from ℜ(clockStr) T

-- SyncSQL example 13
create STREAMED view FiveUnitsWindow as
select R.*
from ℜ(S) R, ℜ(NowView) N
where N.currTime -5 < R.TS ≤ N.currTime

-- SyncSQL example 14
create STREAMED view TwoUnitsSlide as
select 1 as KEY, MAX(T.Timepoint) as currTime
from ℜ(Sync₂) T

-- SyncSQL example 14
create STREAMED view RangeFiveSlideTwo as
select R.*
from ℜ_Sync₂(S) R, ℜ(TwoUnitsSlide) N
where N.currTime - 5 < R.TS ≤ N.currTime

-- SyncSQL example 16
select STREAMED *
from ℜ_Sync₂(S₂) R₂, ℜ_Sync₃(S₃) R₃
where R₂.ID = R₃.ID

-- CQL section 1
Select * From S[Rows 5], R
Where S.A = R.B

-- CQL query 6.1
Select * From Open Where start_price > 100

-- CQL query 6.1, expanded
Select Istream(*) From Open[Now]
Where start_price > 100

-- CQL query 6.2
Select Count(*) From Bid[Range 1 Hour]
Where item_id >= 100 and item_id <= 200

-- CQL query 6.3
Select * From Open
Where item_id Not In (Select * From Close)

-- CQL query 6.4
Select user_id, name, state
From Register[Partition By user_id Rows 1]
Where user_id Not In
      (Select * From Deregister)

-- CQL query 6.5
Select Istream(Open.*) From Open[Now], User
Where seller_id = id and state = 'CA'

-- CQL query 6.6
Select Istream(Close.item_id)
From Close[Now], Open[Range 5 Hours]
Where Close.item_id = Open.item_id

-- CQL query 6.7
Select Istream(Close.item_id, P.price)
From Close[Now],
  ((Select item_id, bid_price as price
   From Bid)
  Union
  (Select item_id, start_price as price
   From Open))
  [Partition By item_id Rows 1] As P
Where Close.item_id = P.item_id

-- CQL section 6.4.1
Select Rstream(*) From S[Now], S2[Now]
Where S.A = S2.B

-- CQL section 6.4.2
Select Istream(Distinct *)
From (Istream(Q))[Range Unbounded]

-- CQL section 7.2.1
Select Istream(L) From S[Range Unbounded]
Where C

-- CQL section 7.2.1
Select Rstream(L) From S[Now] Where C

-- CQL section 7.2.2
Select Count(*) From
  (Select * From Bid
   Where item_id >= 100 and item_id <= 200)
 [Range 1 Hour]

-- STREAM section 2.1, first example
Select Count(*)
From Requests S [Range 1 Day Preceding]
Where S.domain = 'stanford.edu'

-- STREAM section 2.1, second example
Select Count(*)
From Requests S
[Partition By S.client_id
Rows 10 Preceding
Where S.domain = 'stanford.edu']
Where S.URL Like 'http://cs.stanford.edu/%'

-- STREAM section 2.1, third example
Select T.URL
From
(Select client_id, URL
From Requests S, Domains R
Where S.domain = R.domain
And R.type = 'commerce') T Sample(10)
Where T.client_id Between 1 And 1000

-- STREAM section 2.2
Select * From S

-- PIPES section 4.2
CREATE STREAM OpenAuction(itemID INT, sellerID INT, start_price REAL, timestamp TIMESTAMP)
  SOURCE establishConnection('port34100', 'converter') ORDERED BY timestamp

-- PIPES Q1
SELECT itemID, DolToEuro(bid_price), bidderID FROM Bid

-- PIPES Q2
SELECT Bid.* FROM Bid WHERE itemID = 1007 OR itemID = 1020 OR itemID = 2001 OR itemID = 2019 OR itemID = 1087

-- PIPES Q3
SELECT O.* FROM OpenAuction O WINDOW(RANGE 5 HOURS), ClosedAuction C WHERE O.itemID = C.itemID

-- PIPES Q4
SELECT itemID, bid_price FROM Bid WINDOW(RANGE 10 MINUTES)
WHERE bid_price = (SELECT MAX(bid_price) FROM Bid WINDOW(RANGE 10 MINUTES))

-- PIPES Q5
CREATE STREAM CurrentPrice AS
  SELECT P.itemID, P.price, O.sellerID AS sellerID
  FROM ((SELECT itemID, bid_price AS price FROM Bid WINDOW(RANGE 2 DAYS)) UNION ALL
        (SELECT itemID, start_price AS price FROM OpenAuction WINDOW(RANGE 2 DAYS))) P,
       ClosedAuction C, OpenAuction O WINDOW(RANGE 2 DAYS)
  WHERE P.itemID = C.itemID AND C.itemID = O.itemID

-- PIPES Q5
CREATE STREAM ClosingPriceStream AS
  SELECT itemID, sellerID, MAX(P.price) AS price FROM CurrentPrice P GROUP BY P.itemID, P.sellerID

-- PIPES Q6
SELECT itemID FROM (SELECT B1.itemID AS itemID, COUNT(*) AS num FROM Bid B1 WINDOW(RANGE 60 MINUTES) GROUP BY B1.itemID)
WHERE num >= ALL (SELECT COUNT(*) FROM Bid B2 WINDOW(RANGE 60 MINUTES) GROUP BY B2.itemID)

-- PIPES section 12.3.2
SELECT sellerID, AVG(price) FROM ClosingPriceStream WINDOW(PARTITION BY sellerID ROWS 10) GROUP BY sellerID

-- PIPES section 4.5
DROP STREAM CurrentPrice
