-- title: all columns of a stream
SELECT * FROM R(RoomTempStr);

-- Project RoomID, Temperature  [key: RoomID]
--   ℜ(RoomTempStr) over source TemperatureSource  [key: RoomID]
-- rules: none
--
-- source stage: decode json from topic port5501
-- exchange: by hash of (RoomID)
-- target stage: Tagger → Project → StreamOutput (changes)
-- shared with HotRooms1: Tagger

-- title: a query that is part of a running view
SELECT RoomID, Temperature FROM R(RoomTempStr) R WHERE R.Temperature > 80;

-- Project RoomID, Temperature  [key: RoomID]
--   Filter Temperature > 80  [key: RoomID]
--     ℜ(RoomTempStr) over source TemperatureSource  [key: RoomID]
-- rules: none
--
-- source stage: decode json from topic port5501
-- exchange: by hash of (RoomID)
-- target stage: Tagger → Filter → Project → StreamOutput (changes)
-- shared with HotRooms1: Tagger → Filter → Project → StreamOutput

-- title: a query over a view
SELECT RoomID AS room, Temperature * 2 AS twice FROM R(HotRooms1) WHERE Temperature > 100;

-- Project RoomID AS room, Temperature * 2 AS twice  [key: room]
--   Filter Temperature > 100 AND Temperature > 80  [key: RoomID]
--     ℜ(RoomTempStr) over source TemperatureSource  [key: RoomID]
-- rules: filter_through_project, merge_filters, order_conjuncts, merge_projects
--
-- source stage: decode json from topic port5501
-- exchange: by hash of (RoomID)
-- target stage: Tagger → Filter → Project → StreamOutput (changes)
-- shared with HotRooms1: Tagger
-- as a SELECT that runs once: all rows of "HotRooms1"

-- title: TS of a view
SELECT RoomID, TS AS since FROM R(HotRooms1) WHERE TS > 5;

-- Project RoomID, TS AS since  [key: RoomID]
--   Filter TS > 5  [key: RoomID]
--     ℜ(HotRooms1) with TS  [key: RoomID]
--       Project RoomID, Temperature  [key: RoomID]
--         Filter Temperature > 80  [key: RoomID]
--           ℜ(RoomTempStr) over source TemperatureSource  [key: RoomID]
-- rules: none
--
-- source stage: decode json from topic port5501
-- exchange: by hash of (RoomID)
-- target stage: Tagger → Filter → Project → Restamp → Filter → Project → StreamOutput (changes)
-- shared with HotRooms1: Tagger → Filter → Project
-- as a SELECT that runs once: all rows of "HotRooms1"

-- title: an append-only stream
SELECT Temperature FROM R(TempStr) WHERE TS BETWEEN 3 AND 9;

-- Project Temperature  [key: none]
--   Filter TS <= 9 AND TS >= 3  [key: none]
--     ℜ(TempStr) over source TemperatureSource  [key: none]
-- rules: order_conjuncts
--
-- source stage: decode json from topic port5501 → Stamp → Filter → Project
-- exchange: by source partition
-- target stage: StreamOutput (append-only)

-- title: a result without a key
SELECT Temperature FROM R(RoomTempStr);

-- Project Temperature  [key: none]
--   ℜ(RoomTempStr) over source TemperatureSource  [key: RoomID]
-- rules: none
--
-- source stage: decode json from topic port5501
-- exchange: by hash of (RoomID)
-- target stage 1: Tagger → Project
-- exchange: by hash of (Temperature)
-- target stage 2: StreamOutput (changes)
-- shared with HotRooms1: Tagger
