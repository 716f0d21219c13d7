-- Declared before each case in this folder.
REGISTER SOURCE TemperatureSource (char RoomID, int Temperature) From port5501;
CREATE STREAM RoomTempStr OVER TemperatureSource KEY RoomID;
CREATE STREAM TempStr OVER TemperatureSource KEY NULL;
CREATE STREAMED VIEW HotRooms1 AS SELECT RoomID, Temperature FROM R(RoomTempStr) R WHERE R.Temperature > 80;
