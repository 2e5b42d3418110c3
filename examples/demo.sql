CREATE SCHEMA lake.shop;

CREATE TABLE lake.shop.orders AS
SELECT i AS id, DATE '2026-01-01' + (i % 90)::INTEGER AS day, 'item ' || (i % 50) AS item,
       (1 + i % 7)::INTEGER AS pieces, ((i * 37) % 9000 / 100)::DECIMAL(9,2) AS price
FROM range(3000000) r(i);

SET engine = 'spark';

CREATE TABLE lake.shop.daily AS
SELECT day, count(*) AS orders, sum(pieces * price) AS revenue
FROM lake.shop.orders WHERE item <> 'item 13' GROUP BY day;

RESET engine;

SELECT * FROM lake.shop.daily ORDER BY day LIMIT 3;

UPDATE lake.shop.daily SET revenue = 0 WHERE day = DATE '2026-01-01' RETURNING day, revenue;

SELECT new.day, old.revenue AS before, new.revenue AS after
FROM lake.shop.daily new JOIN lake.shop.daily old AT (VERSION => 1) USING (day)
WHERE new.revenue <> old.revenue;
