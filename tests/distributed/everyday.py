"""Statements as people write them every day, over the tables of the shop."""

STATEMENTS = {
    "all columns": "SELECT * FROM customers",
    "some columns": "SELECT id, name FROM customers",
    "filter": "SELECT id FROM orders WHERE amount > 50 AND state = 'paid'",
    "filter with or": "SELECT id FROM orders WHERE amount > 90 OR state IS NULL",
    "filter in list": "SELECT id FROM orders WHERE state IN ('open', 'sent') AND customer < 2",
    "filter not in list": "SELECT id FROM customers WHERE country NOT IN ('DE', 'FR')",
    "filter between": "SELECT id FROM orders WHERE placed BETWEEN '2024-01-05' AND '2024-01-09'",
    "filter like": "SELECT id, name FROM customers WHERE name LIKE '%er 1%'",
    "filter ilike": "SELECT id FROM customers WHERE country ILIKE 'd_'",
    "filter regexp": "SELECT id FROM customers WHERE regexp_matches(name, '[37]$')",
    "filter null": "SELECT id FROM customers WHERE credit IS NULL",
    "filter never": "SELECT id FROM customers WHERE 1 = 0",
    "filter on enum": "SELECT id FROM customers WHERE rank = 'gold'",
    "order": "SELECT id, amount FROM orders ORDER BY amount DESC, id",
    "order nulls last": "SELECT id, credit FROM customers ORDER BY credit NULLS LAST, id",
    "order by enum": "SELECT rank, id FROM customers ORDER BY rank DESC, id",
    "order by expression": "SELECT id FROM orders ORDER BY amount % 7, id DESC",
    "order by hidden column": "SELECT name FROM customers ORDER BY id",
    "top": "SELECT id, amount FROM orders ORDER BY amount DESC, id LIMIT 7",
    "top with offset": "SELECT id FROM orders ORDER BY id LIMIT 5 OFFSET 20",
    "limit": "SELECT id FROM orders LIMIT 13",
    "limit with offset": "SELECT id FROM orders WHERE amount > 20 LIMIT 10 OFFSET 30",
    "limit zero": "SELECT id FROM orders LIMIT 0",
    "limit percent": "SELECT id FROM customers LIMIT 10%",
    "offset": "SELECT id FROM customers OFFSET 100",
    "count": "SELECT count(*) FROM orders",
    "count column": "SELECT count(customer) FROM orders",
    "count nothing": "SELECT count(*), sum(amount), min(name) FROM nothing",
    "group nothing": "SELECT name, count(*) FROM nothing GROUP BY name",
    "sums": "SELECT sum(amount), min(amount), max(placed), avg(amount) FROM orders",
    "group": "SELECT state, count(*), sum(amount) FROM orders GROUP BY state",
    "group average": "SELECT customer, avg(amount), avg(id) FROM orders GROUP BY customer",
    "group small average": "SELECT product, avg(quantity), avg(price) FROM lines GROUP BY ALL",
    "group double": "SELECT state, sum(weight), avg(weight) FROM orders GROUP BY state",
    "group by expression": "SELECT year(placed), month(placed), count(*) FROM orders GROUP BY ALL",
    "group by date": "SELECT date_trunc('week', placed) w, sum(amount) FROM orders GROUP BY w",
    "having": "SELECT customer, count(*) c FROM orders GROUP BY customer HAVING c > 7",
    "having alone": "SELECT sum(amount) FROM orders HAVING count(*) > 5",
    "group filter": "SELECT state, count(*) FILTER (WHERE amount > 50) FROM orders GROUP BY state",
    "count distinct": "SELECT count(DISTINCT customer) FROM orders",
    "group distinct": "SELECT state, count(DISTINCT customer), sum(amount) FROM orders GROUP BY 1",
    "booleans": "SELECT state, bool_and(amount > 1), bool_or(amount > 99) FROM orders GROUP BY 1",
    "bits": "SELECT bit_and(id), bit_or(id), bit_xor(id) FROM orders",
    "names": "SELECT country, string_agg(name, ', ' ORDER BY id) FROM customers GROUP BY country",
    "list": "SELECT state, list(id ORDER BY id DESC) FROM orders WHERE id < 30 GROUP BY state",
    "median": "SELECT state, median(amount), quantile_cont(weight, 0.9) FROM orders GROUP BY 1",
    "quantiles": "SELECT quantile_disc(amount, [0.1, 0.5, 0.9]) FROM orders",
    "arg max": "SELECT state, arg_max(id, id) FROM orders GROUP BY state",
    "stddev": "SELECT round(stddev(amount), 6) FROM orders",
    "rollup": "SELECT state, year(placed) y, sum(amount) FROM orders GROUP BY ROLLUP (state, y)",
    "cube": "SELECT country, rank, count(*), grouping(country) FROM customers "
    "GROUP BY CUBE (country, rank)",
    "grouping sets": "SELECT country, rank, avg(credit) FROM customers "
    "GROUP BY GROUPING SETS ((country), (rank), ())",
    "distinct": "SELECT DISTINCT country, rank FROM customers",
    "distinct on": "SELECT DISTINCT ON (state) state, id FROM orders ORDER BY state, id DESC",
    "join": "SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.id",
    "join using": "SELECT count(*) FROM orders JOIN customers USING (id)",
    "join three": "SELECT c.country, sum(l.price * l.quantity) FROM customers c "
    "JOIN orders o ON o.customer = c.id JOIN lines l ON l.order_id = o.id GROUP BY 1 ORDER BY 2",
    "left join": "SELECT c.id, o.id FROM customers c LEFT JOIN orders o ON o.customer = c.id",
    "right join": "SELECT c.id, o.id FROM orders o RIGHT JOIN customers c ON o.customer = c.id",
    "full join": "SELECT c.id, o.id FROM customers c FULL JOIN orders o ON o.customer = c.id",
    "join by condition": "SELECT c.id, o.id FROM customers c JOIN orders o "
    "ON o.customer = c.id AND o.amount > c.credit",
    "join by range": "SELECT c.id, count(*) FROM customers c JOIN orders o "
    "ON o.amount < c.credit AND o.id < 50 GROUP BY c.id",
    "left join by range": "SELECT c.id, o.id FROM customers c LEFT JOIN orders o "
    "ON o.amount < c.credit - 95 ",
    "cross join": "SELECT c.id, e.id FROM customers c, excluded e WHERE c.id < 10",
    "self join": "SELECT a.id, b.id FROM customers a JOIN customers b ON a.id = b.id + 40",
    "join not distinct": "SELECT c.id, e.id FROM customers c JOIN excluded e "
    "ON (CASE WHEN c.id % 2 = 0 THEN c.id END) IS NOT DISTINCT FROM e.id",
    "semi join": "SELECT id FROM customers c WHERE EXISTS "
    "(SELECT 1 FROM orders o WHERE o.customer = c.id AND o.state = 'open')",
    "anti join": "SELECT id FROM customers c WHERE NOT EXISTS "
    "(SELECT 1 FROM orders o WHERE o.customer = c.id)",
    "in subquery": "SELECT id FROM customers WHERE id IN (SELECT customer FROM orders)",
    "not in with null": "SELECT id FROM customers WHERE id NOT IN (SELECT id FROM excluded)",
    "not in": "SELECT id FROM customers WHERE id NOT IN "
    "(SELECT id FROM excluded WHERE id IS NOT NULL)",
    "in as a column": "SELECT id, id IN (SELECT id FROM excluded) FROM customers",
    "any": "SELECT id FROM customers WHERE id > ANY (SELECT id * 10 FROM excluded)",
    "all": "SELECT id FROM customers WHERE id < ALL (SELECT id FROM excluded WHERE id > 5)",
    "scalar subquery": "SELECT id FROM orders WHERE amount > (SELECT avg(amount) FROM orders)",
    "correlated subquery": "SELECT id, (SELECT max(amount) FROM orders o WHERE o.customer = c.id) "
    "FROM customers c",
    "correlated count": "SELECT id FROM customers c "
    "WHERE (SELECT count(*) FROM orders o WHERE o.customer = c.id) > 7",
    "lateral": "SELECT c.id, t.amount FROM customers c, LATERAL "
    "(SELECT sum(amount) amount FROM orders o WHERE o.customer = c.id) t",
    "asof join": "SELECT l.order_id, l.number, p.price FROM lines l JOIN orders o "
    "ON o.id = l.order_id ASOF JOIN prices p ON p.product = l.product AND p.since <= o.placed",
    "asof left join": "SELECT o.id, p.price FROM orders o ASOF LEFT JOIN prices p "
    "ON o.customer = p.product AND o.placed >= p.since",
    "positional join": "SELECT * FROM excluded POSITIONAL JOIN (SELECT id FROM products LIMIT 2)",
    "union": "SELECT id FROM customers UNION SELECT customer FROM orders",
    "union all": "SELECT id, 'c' FROM customers UNION ALL SELECT customer, 'o' FROM orders",
    "union by name": "SELECT id, name FROM customers "
    "UNION ALL BY NAME SELECT id, title FROM products",
    "union of groups": "SELECT country k, count(*) FROM customers GROUP BY 1 "
    "UNION ALL SELECT state, count(*) FROM orders GROUP BY 1",
    "except": "SELECT id FROM customers EXCEPT SELECT customer FROM orders",
    "except all": "SELECT customer FROM orders EXCEPT ALL SELECT id FROM customers",
    "intersect": "SELECT id FROM customers INTERSECT SELECT customer FROM orders",
    "intersect all": "SELECT customer FROM orders INTERSECT ALL SELECT product FROM lines",
    "row number": "SELECT id, row_number() OVER (PARTITION BY customer ORDER BY placed, id) "
    "FROM orders",
    "running sum": "SELECT id, sum(amount) OVER (PARTITION BY customer ORDER BY id) FROM orders",
    "lag": "SELECT id, lag(amount, 1, 0) OVER (PARTITION BY state ORDER BY id) FROM orders",
    "rank without partition": "SELECT id, rank() OVER (ORDER BY amount) FROM orders",
    "two windows": "SELECT id, count(*) OVER (PARTITION BY state), "
    "sum(amount) OVER (PARTITION BY customer), count(*) OVER () FROM orders",
    "window frame": "SELECT id, avg(amount) OVER (PARTITION BY state ORDER BY id "
    "ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) FROM orders",
    "window range": "SELECT id, count(*) OVER (PARTITION BY state ORDER BY placed "
    "RANGE BETWEEN INTERVAL 2 DAY PRECEDING AND CURRENT ROW) FROM orders",
    "window exclude": "SELECT id, sum(amount) OVER (PARTITION BY state ORDER BY id ROWS "
    "BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW) FROM orders",
    "qualify": "SELECT customer, id FROM orders QUALIFY row_number() OVER "
    "(PARTITION BY customer ORDER BY amount DESC, id) = 1",
    "common table": "WITH big AS (SELECT * FROM orders WHERE amount > 50) "
    "SELECT state, count(*) FROM big GROUP BY state",
    "common table twice": "WITH t AS MATERIALIZED (SELECT customer, sum(amount) s FROM orders "
    "GROUP BY 1) SELECT a.customer FROM t a JOIN t b ON a.s < b.s AND b.customer = a.customer + 1",
    "recursion": "WITH RECURSIVE r AS (SELECT 1 AS id UNION ALL SELECT id + 1 FROM r "
    "WHERE id < (SELECT max(id) FROM customers)) SELECT count(*), sum(id) FROM r",
    "values": "SELECT o.id, v.label FROM orders o JOIN (VALUES ('open', 'Open'), "
    "('paid', 'Paid')) v(state, label) ON o.state = v.state",
    "range": "SELECT r.range, count(c.id) FROM range(10) r LEFT JOIN customers c "
    "ON c.id % 10 = r.range GROUP BY 1",
    "unnest": "SELECT id, unnest(tags) FROM products",
    "unnest in from": "SELECT t.tag, count(*) FROM products, unnest(tags) t(tag) GROUP BY 1",
    "struct fields": "SELECT size.w, size.dim.x FROM products WHERE size.dim.y < -3",
    "struct": "SELECT {'a': id, 'b c': title} FROM products",
    "map": "SELECT attributes['a'], map_keys(attributes) FROM products",
    "list functions": "SELECT id, list_transform(tags, x -> x + id), tags[1:2], len(tags) "
    "FROM products",
    "list filter": "SELECT list_filter(tags, lambda x: x > 2), list_sum(tags) FROM products",
    "list comprehension": "SELECT [x * 2 FOR x IN tags IF x IS NOT NULL] FROM products",
    "case": "SELECT CASE WHEN amount > 90 THEN 'high' WHEN amount > 50 THEN 'mid' END b, count(*) "
    "FROM orders GROUP BY b",
    "casts": "SELECT CAST(amount AS INTEGER), TRY_CAST(state AS INTEGER), CAST(id AS HUGEINT) "
    "FROM orders",
    "text": "SELECT upper(name), name || '!', substring(name, 2, 4), 'it''s' FROM customers",
    "dates": "SELECT since + INTERVAL 1 MONTH, strftime(since, '%d.%m.%Y'), dayname(since) "
    "FROM customers",
    "constants": "SELECT id, DATE '2024-02-29', TIMESTAMP '2024-01-01 00:00:00.5', "
    "INTERVAL '1 month 2 days', 1e400, 'nan'::DOUBLE, '\\xAA'::BLOB, 17014118346046923::HUGEINT, "
    "12345678901234567890.123::DECIMAL(30, 3), TIME '12:34:56', uuid, NULL "
    "FROM (SELECT id, '47183823-2574-4bfd-b411-99ed177d3e43'::UUID uuid FROM excluded)",
    "decimals": "SELECT amount * 2, amount * amount, amount + 1, amount - 0.125, amount / 3 "
    "FROM orders",
    "pivot": "SELECT * FROM (PIVOT orders ON state IN ('open', 'paid') "
    "USING sum(amount) GROUP BY customer)",
    "coalesce": "SELECT coalesce(name, 'nobody ' || id), nullif(country, 'DE') FROM customers",
    "odd names": 'SELECT id AS "Id ""1""", id + 1 AS "select", name AS "c0" FROM customers',
}
