-- One table multiplied: each gets a storage descriptor and a serde of its own, as the metastore makes them.
-- Only for a benchmark's own database. Parameters: count (tables in all), table (TBL_ID).
WITH origin AS (
  SELECT t.*, s."SERDE_ID" FROM "TBLS" t JOIN "SDS" s USING ("SD_ID") WHERE t."TBL_ID" = %(table)s
), base AS (
  SELECT (SELECT max("TBL_ID") FROM "TBLS") + 1000000 AS tbl,
         (SELECT max("SD_ID") FROM "SDS") + 1000000 AS sd,
         (SELECT max("SERDE_ID") FROM "SERDES") + 1000000 AS serde
), numbers AS (
  SELECT n FROM generate_series(1, %(count)s - 1) AS n
), serdes AS (
  INSERT INTO "SERDES" ("SERDE_ID", "NAME", "SLIB", "DESCRIPTION", "SERIALIZER_CLASS", "DESERIALIZER_CLASS", "SERDE_TYPE")
  SELECT base.serde + n, d."NAME", d."SLIB", d."DESCRIPTION", d."SERIALIZER_CLASS", d."DESERIALIZER_CLASS", d."SERDE_TYPE"
  FROM numbers, base, origin JOIN "SERDES" d USING ("SERDE_ID")
), descriptors AS (
  INSERT INTO "SDS" ("SD_ID", "INPUT_FORMAT", "IS_COMPRESSED", "LOCATION", "NUM_BUCKETS", "OUTPUT_FORMAT", "SERDE_ID",
                     "CD_ID", "IS_STOREDASSUBDIRECTORIES")
  SELECT base.sd + n, d."INPUT_FORMAT", d."IS_COMPRESSED", d."LOCATION" || '_' || n, d."NUM_BUCKETS",
         d."OUTPUT_FORMAT", base.serde + n, d."CD_ID", d."IS_STOREDASSUBDIRECTORIES"
  FROM numbers, base, origin JOIN "SDS" d USING ("SD_ID")
), tables AS (
  INSERT INTO "TBLS" ("TBL_ID", "CREATE_TIME", "DB_ID", "LAST_ACCESS_TIME", "OWNER", "OWNER_TYPE", "RETENTION", "SD_ID",
                      "TBL_NAME", "TBL_TYPE", "IS_REWRITE_ENABLED", "WRITE_ID")
  SELECT base.tbl + n, 1700000000, "DB_ID", 0, "OWNER", "OWNER_TYPE", "RETENTION", base.sd + n,
         "TBL_NAME" || '_' || lpad(n::text, 6, '0'), "TBL_TYPE", "IS_REWRITE_ENABLED", 0
  FROM numbers, base, origin
)
INSERT INTO "TABLE_PARAMS" ("TBL_ID", "PARAM_KEY", "PARAM_VALUE")
SELECT base.tbl + n, p."PARAM_KEY", p."PARAM_VALUE" FROM numbers, base, "TABLE_PARAMS" p WHERE p."TBL_ID" = %(table)s
