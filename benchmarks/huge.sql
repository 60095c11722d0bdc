-- Partitions of one table multiplied: each gets a storage descriptor and a serde of its own, as the metastore makes them.
-- Only for a benchmark's own database. Parameters: count (partitions in all), table (TBL_ID).
WITH origin AS (
  SELECT p."PART_ID", p."SD_ID", s."SERDE_ID", s."LOCATION"
  FROM "PARTITIONS" p JOIN "SDS" s USING ("SD_ID") WHERE p."TBL_ID" = %(table)s LIMIT 1
), base AS (
  SELECT (SELECT max("PART_ID") FROM "PARTITIONS") + 1000000 AS part,
         (SELECT max("SD_ID") FROM "SDS") + 1000000 AS sd,
         (SELECT max("SERDE_ID") FROM "SERDES") + 1000000 AS serde
), numbers AS (
  SELECT n, 'd' || lpad((n %% 10000)::text, 5, '0') AS day, (n / 10000)::text AS hour
  FROM generate_series(1, %(count)s - 1) AS n
), serdes AS (
  INSERT INTO "SERDES" ("SERDE_ID", "NAME", "SLIB", "DESCRIPTION", "SERIALIZER_CLASS", "DESERIALIZER_CLASS", "SERDE_TYPE")
  SELECT base.serde + n, d."NAME", d."SLIB", d."DESCRIPTION", d."SERIALIZER_CLASS", d."DESERIALIZER_CLASS", d."SERDE_TYPE"
  FROM numbers, base, origin JOIN "SERDES" d USING ("SERDE_ID")
), serde_parameters AS (
  INSERT INTO "SERDE_PARAMS" ("SERDE_ID", "PARAM_KEY", "PARAM_VALUE")
  SELECT base.serde + n, d."PARAM_KEY", d."PARAM_VALUE" FROM numbers, base, origin JOIN "SERDE_PARAMS" d USING ("SERDE_ID")
), descriptors AS (
  INSERT INTO "SDS" ("SD_ID", "INPUT_FORMAT", "IS_COMPRESSED", "LOCATION", "NUM_BUCKETS", "OUTPUT_FORMAT", "SERDE_ID",
                     "CD_ID", "IS_STOREDASSUBDIRECTORIES")
  SELECT base.sd + n, d."INPUT_FORMAT", d."IS_COMPRESSED",
         replace(d."LOCATION", 'day=d00000/n=0', 'day=' || day || '/n=' || hour), d."NUM_BUCKETS", d."OUTPUT_FORMAT",
         base.serde + n, d."CD_ID", d."IS_STOREDASSUBDIRECTORIES"
  FROM numbers, base, origin JOIN "SDS" d USING ("SD_ID")
), partitions AS (
  INSERT INTO "PARTITIONS" ("PART_ID", "CREATE_TIME", "LAST_ACCESS_TIME", "PART_NAME", "SD_ID", "TBL_ID", "WRITE_ID")
  SELECT base.part + n, 1700000000, 0, 'day=' || day || '/n=' || hour, base.sd + n, %(table)s, 0 FROM numbers, base
), partition_values AS (
  INSERT INTO "PARTITION_KEY_VALS" ("PART_ID", "PART_KEY_VAL", "INTEGER_IDX")
  SELECT base.part + n, day, 0 FROM numbers, base UNION ALL SELECT base.part + n, hour, 1 FROM numbers, base
)
INSERT INTO "PARTITION_PARAMS" ("PART_ID", "PARAM_KEY", "PARAM_VALUE")
SELECT base.part + n, k.key, k.value FROM numbers, base,
  (VALUES ('transient_lastDdlTime', '1700000000'), ('numFiles', '1'), ('totalSize', '123456')) AS k(key, value)
