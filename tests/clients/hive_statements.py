# ruff: noqa: E501  (one statement is one line)
"""What Hive's Driver is asked to do in its job: a shop's tables as TPC-DS has them, small.

`sales` and `returned` are transactional and partitioned (full ACID, insert-only), `item` is transactional; `web`,
`day`, `customer` are external, `web` is partitioned. What begins with one of `READS` changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

READS: Final = ("select", "with", "show", "describe", "explain")
"""How statements begin that change nothing."""

FULL: Final = "stored as orc tblproperties ('transactional'='true')"
INSERT_ONLY: Final = "stored as orc tblproperties ('transactional'='true', 'transactional_properties'='insert_only')"

_TABLES: Final = (
    "create database shop",
    "show databases",
    "create external table shop.day (id int, day string, year int, month int, weekday string) stored as orc",
    "create external table shop.customer (id int, name string, country string) stored as orc",
    f"create table shop.item (id int, name string, category string, price decimal(7,2), primary key (id) disable novalidate) {FULL}",
    f"create table shop.sales (item int, customer int, quantity int, price decimal(7,2), foreign key (item) references shop.item (id) disable novalidate) partitioned by (ds string, store int) {FULL}",
    f"create table shop.returned (item int, customer int, quantity int, reason string) partitioned by (day date) {INSERT_ONLY}",
    "create external table shop.web (item int, customer int, quantity int, price decimal(7,2)) partitioned by (year int, month int) stored as orc",
    "show tables in shop",
    "describe shop.sales",
    "select * from shop.sales",
    "insert into shop.day values (1, '2024-01-01', 2024, 1, 'Mon'), (2, '2024-01-02', 2024, 1, 'Tue'), (3, '2024-01-31', 2024, 1, 'Wed'), (4, '2024-02-01', 2024, 2, 'Thu'), (5, '2024-02-29', 2024, 2, 'Thu'), (6, '2023-12-31', 2023, 12, 'Sun')",
    "insert into shop.customer values (1, 'Ada', 'de'), (2, 'Bo', 'fr'), (3, 'Cy', 'de'), (4, 'Di', 'us')",
    "insert into shop.item values (1, 'apple', 'fruit', 1.50), (2, 'bread', 'bakery', 2.25), (3, 'cherry', 'fruit', 4.00), (4, 'dough', 'bakery', 1.10)",
    "insert into shop.sales partition (ds, store) select i.id, c.id, i.id + c.id, i.price, d.day, c.id % 3 from shop.item i join shop.customer c join shop.day d where d.month < 12 and (i.id + c.id + d.id) % 3 = 0",
    "insert into shop.web partition (year, month) select i.id, c.id, 1, i.price, d.year, d.month from shop.item i join shop.customer c join shop.day d where (i.id * c.id + d.id) % 4 = 1",
    "insert into shop.returned partition (day) values (1, 1, 1, 'soft', date '2024-01-02'), (2, 2, 1, 'dry', date '2024-01-31'), (3, 3, 2, 'soft', date '2024-02-29')",
)

_ANALYSIS: Final = (
    "analyze table shop.sales partition (ds, store) compute statistics",
    "analyze table shop.sales partition (ds, store) compute statistics for columns",
    "analyze table shop.web partition (year, month) compute statistics for columns",
    "analyze table shop.item compute statistics for columns",
    "analyze table shop.day compute statistics for columns",
)

PRUNED: Final = (
    "select * from shop.sales where ds = '2024-01-01'",
    "select * from shop.sales where ds = '2024-01-01' and store = 1",
    "select item, quantity from shop.sales where ds >= '2024-01-02' and ds < '2024-02-01'",
    "select item, store from shop.sales where ds between '2024-01-01' and '2024-01-31' and store in (0, 2)",
    "select item from shop.sales where store = 0 or store = 2",
    "select item from shop.sales where store <> 1",
    "select item from shop.sales where not (ds = '2024-01-01' or store > 1)",
    "select item from shop.sales where (ds, store) in (('2024-01-01', 1), ('2024-02-29', 2))",
    "select item from shop.sales where ds > '2024-01-01' and price > 2",
    "select item from shop.sales where ds is not null and store is not null and quantity > 3",
    "select item, ds from shop.sales where cast(ds as date) >= date '2024-01-31'",
    "select item, ds from shop.sales where to_date(ds) between date '2024-01-01' and date '2024-01-31'",
    "select item, ds from shop.sales where ds >= date_sub('2024-02-01', 2)",
    "select item, ds from shop.sales where ds >= date_sub(current_date, 365)",
    "select item, ds from shop.sales where ds <= current_date",
    "select item, ds from shop.sales where substr(ds, 1, 7) = '2024-02'",
    "select item, ds from shop.sales where year(ds) = 2024 and month(ds) = 1",
    "select item, ds from shop.sales where ds like '2024-01-%'",
    "select item, ds from shop.sales where concat(ds, '-', store) = '2024-01-01-1'",
    "select item, ds from shop.sales where store % 2 = 0",
    "select item, ds from shop.sales where date_format(ds, 'yyyy-MM') = '2024-02'",
    "select item, ds from shop.sales where replace(ds, '-', '') >= '20240131'",
    "select item from shop.web where year = 2024 and month = 1",
    "select item, month from shop.web where year * 100 + month >= 202401",
    "select item, month from shop.web where year = 2024 and month in (1, 2, 3)",
    "select item, month from shop.web where (year = 2023 and month >= 12) or (year = 2024 and month < 2)",
    "select item, year from shop.web where year >= 2024 and quantity > 0",
    "select item, reason from shop.returned where day = '2024-01-31'",
    "select item, reason from shop.returned where day >= date '2024-01-31'",
    "select item, reason from shop.returned where day > date_sub('2024-03-01', 30)",
    "select item, reason from shop.returned where month(day) = 1",
)
"""Conditions on keys, as people write them; mostly read without a job of MapReduce."""

JOINS: Final = (
    "select i.category, sum(s.quantity * s.price) from shop.sales s join shop.item i on s.item = i.id where s.ds = '2024-01-01' group by i.category",
    "select d.month, count(*) from shop.sales s join shop.day d on s.ds = d.day where d.year = 2024 group by d.month",
    "select c.country, i.category, sum(s.quantity) from shop.sales s join shop.item i on s.item = i.id join shop.customer c on s.customer = c.id where s.ds between '2024-01-01' and '2024-01-31' and c.country = 'de' group by c.country, i.category order by 2",
    "select i.name, s.quantity, w.quantity from shop.sales s join shop.web w on s.item = w.item and s.customer = w.customer join shop.item i on i.id = s.item where s.ds = '2024-02-01' and w.year = 2024 and w.month = 2",
    "select s.item, r.reason from shop.sales s join shop.returned r on s.item = r.item and s.customer = r.customer where s.store = 1 and r.day >= date '2024-01-01'",
    "with best as (select item, sum(quantity) as n from shop.sales where ds >= '2024-01-01' group by item) select i.name, b.n from best b join shop.item i on b.item = i.id where b.n > 5 order by b.n desc, i.name",
    "select count(*) from shop.sales where ds in (select day from shop.day where weekday = 'Thu')",
    "select name from shop.customer c where not exists (select 1 from shop.web w where w.customer = c.id and w.year = 2023)",
    "select 'shop', count(*) from shop.sales where ds = '2024-01-02' union all select 'web', count(*) from shop.web where year = 2024 and month = 1",
    "select ds, store, count(*), min(price), max(quantity) from shop.sales group by ds, store",
    "explain select i.name, sum(s.quantity) from shop.sales s join shop.item i on s.item = i.id where s.ds = '2024-01-31' group by i.name",
    "explain select * from shop.web where year = 2024 and month = 2 and item = 1",
)

_METADATA: Final = (
    "show partitions shop.sales",
    "show partitions shop.sales partition (ds = '2024-01-01')",
    "show partitions shop.web where year = 2024",
    "describe formatted shop.item",
    "describe shop.sales partition (ds = '2024-01-01', store = 1)",
    "describe formatted shop.web partition (year = 2024, month = 1)",
    "show tblproperties shop.item",
    "show columns in shop.sales",
)

_COUNTS: Final = (
    "select count(*) from shop.sales",
    "select count(*), min(price), max(price) from shop.item",
    "select count(*), max(item) from shop.web",
    "select count(*) from shop.returned",
    "select store, sum(quantity) from shop.sales where ds >= '2024-01-01' group by store",
)

_CHANGES: Final = (
    "update shop.item set price = price + 1 where category = 'fruit'",
    "select * from shop.item",
    "update shop.sales set quantity = quantity + 10 where ds = '2024-01-01' and store = 1",
    "select * from shop.sales where ds = '2024-01-01' and store = 1",
    "select sum(quantity) from shop.sales where ds = '2024-01-01'",
    "delete from shop.sales where ds = '2024-01-02' and item = 4",
    "select item, store from shop.sales where ds = '2024-01-02'",
    "merge into shop.sales t using (select item, customer, 7 as quantity, price, '2024-02-01' as ds, 1 as store from shop.web where year = 2024 and month = 2) s on t.item = s.item and t.customer = s.customer and t.ds = s.ds and t.store = s.store when matched then update set quantity = s.quantity when not matched then insert values (s.item, s.customer, s.quantity, s.price, s.ds, s.store)",
    "select item, customer, quantity, store from shop.sales where ds = '2024-02-01'",
    "select count(*), sum(quantity) from shop.sales where ds = '2024-02-01' and store = 1",
    "insert into shop.sales partition (ds = '2024-03-01', store) select item, customer, quantity, price, month from shop.web where year = 2024",
    "show partitions shop.sales",
    "select item, store from shop.sales where ds = '2024-03-01'",
    "select item, store from shop.sales where ds > '2024-02-01' and store = 2",
    "insert overwrite table shop.web partition (year = 2024, month = 2) values (9, 9, 9, 9.99)",
    "select * from shop.web where year = 2024 and month = 2",
    "select sum(quantity) from shop.web where year = 2024",
    "insert into shop.web partition (year, month) values (5, 1, 2, 3.50, 2025, 1), (6, 2, 2, 3.50, 2025, 2)",
    "select item, month from shop.web where year = 2025",
    "show partitions shop.web",
    "insert into shop.returned partition (day) select item, customer, 1, 'late', cast('2024-03-01' as date) from shop.sales where ds = '2024-03-01' and store = 1",
    "select item, reason from shop.returned where day = date '2024-03-01'",
    "insert overwrite table shop.returned partition (day = '2024-01-02') values (4, 4, 4, 'all')",
    "select * from shop.returned where day < date '2024-02-01'",
    "alter table shop.sales add partition (ds = '2024-04-01', store = 0) partition (ds = '2024-04-01', store = 1)",
    "show partitions shop.sales partition (ds = '2024-04-01')",
    "select count(*) from shop.sales where ds = '2024-04-01'",
    "alter table shop.sales drop partition (ds = '2024-04-01')",
    "select item, ds from shop.sales where ds >= '2024-03-01'",
    "alter table shop.web drop partition (year = 2025, month > 1)",
    "select item, month from shop.web where year = 2025",
    "alter table shop.web partition (year = 2025, month = 1) rename to partition (year = 2025, month = 3)",
    "select item, month from shop.web where year = 2025 and month >= 3",
    "alter table shop.sales add columns (note string)",
    "select item, note from shop.sales where ds = '2024-01-31'",
    "insert into shop.sales partition (ds = '2024-01-31', store = 2) values (1, 1, 1, 1.00, 'noted')",
    "select item, note from shop.sales where ds = '2024-01-31' and store = 2",
    "analyze table shop.sales partition (ds = '2024-01-31', store) compute statistics for columns",
    "select count(*), max(quantity) from shop.sales where ds = '2024-01-31'",
    f"create table shop.monthly {FULL} as select month, sum(quantity) as n from shop.web where year = 2024 group by month",
    "select * from shop.monthly",
    "create view shop.fruit as select s.* from shop.sales s join shop.item i on s.item = i.id where i.category = 'fruit'",
    "select item, quantity from shop.fruit where ds = '2024-01-01'",
    "truncate table shop.returned partition (day = '2024-02-29')",
    "select count(*) from shop.returned where day >= date '2024-02-01'",
    "delete from shop.item where id = 4",
    "select i.id, i.name, i.price from shop.item i where i.price > 2",
)

_END: Final = (
    "drop view shop.fruit",
    "drop table shop.monthly",
    "show tables in shop",
    "drop database shop cascade",
)

JOB: Final[Sequence[str]] = (
    *_TABLES,
    *PRUNED,
    *_ANALYSIS,
    *JOINS,
    *_METADATA,
    *_COUNTS,
    *_CHANGES,
    *PRUNED[:12],
    *JOINS[:6],
    *_COUNTS,
    *_END,
)
