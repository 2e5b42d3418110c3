"""What one may look for in the table and not find, with the reason."""

_RANDOM = "DuckDB itself does not fix which row it takes."
_APPROXIMATE = "The estimates of the two engines differ."
_INTERVAL = "Spark has no type that holds DuckDB's intervals."
_GRAPHEMES = "DuckDB counts what readers see as one letter, Spark counts code points."

MISSING: dict[str, str] = {
    "<<, >>": "DuckDB raises for what Spark shifts out, and shifts by the width of the type.",
    "** of DECIMAL with more than 15 digits": "The digits of a double are not enough to agree.",
    "FLOAT with DECIMAL": "DuckDB makes a FLOAT of the decimal in two steps that Spark lacks.",
    "atan2": "Spark takes -0.0 for 0.0 there.",
    "cot, sinh, cosh, tanh, gamma, factorial, even, nextafter": "Not verified.",
    "greatest, least of FLOAT": "DuckDB makes 0.0 of -0.0 there.",
    "round with digits that are no constant, or negative": "The power of ten must be known.",
    "round of FLOAT with digits": "DuckDB computes in FLOAT, Spark in DOUBLE.",
    "gcd, lcm, bit_count": "Not verified.",
    "product, favg, fsum, entropy, histogram, kurtosis, skewness, regr_*, mad": "Not verified.",
    "corr": "DuckDB and Spark differ for columns that do not vary.",
    "covar_pop, covar_samp": "Not verified for infinities.",
    "arg_min, arg_max of FLOAT and DOUBLE": "DuckDB makes 0.0 of -0.0 there.",
    "avg of DECIMAL with 38 digits": "DuckDB overflows for some windows, Spark does not.",
    "approx_*, reservoir_quantile": _APPROXIMATE,
    "any_value, first, last, arbitrary as aggregates": _RANDOM,
    "mode": "Where several values are equally frequent, the engines choose another.",
    "list, array_agg, string_agg without ORDER BY": _RANDOM,
    "list, string_agg with several keys of ORDER BY": "Only one key is verified.",
    "median, quantile_cont of BIGINT, DECIMAL, FLOAT, DOUBLE": (
        "The engines interpolate by formulas that differ for large values and infinities."
    ),
    "quantile_disc": "Spark gives a DOUBLE, and takes another row for some portions.",
    "reverse": _GRAPHEMES,
    "chr": "Spark's is of one byte.",
    "left, right, substring with columns or negative lengths": "Only constants are verified.",
    "format, printf": "The languages of the formats differ.",
    "levenshtein, jaccard, hamming, jaro": "DuckDB compares bytes, Spark code points.",
    "base64, from_base64, url_encode": "Not verified.",
    "regexp with classes such as \\s, \\b, \\p, flags, or alternatives outside of brackets": (
        "RE2 and Java read them differently, or that they agree is not proved."
    ),
    "regexp_replace with references to groups": "RE2 writes \\1 and Java $1.",
    "SIMILAR TO, GLOB": "Spark has none.",
    "date_diff of weeks": "DuckDB counts them by a rule of its own.",
    "date_diff of microseconds, date_sub, time_bucket, age": "Not verified, or an interval.",
    "TIMESTAMP - TIMESTAMP, to_days, to_hours, INTERVAL columns": _INTERVAL,
    "INTERVAL of several units or of a column": "Only one unit and a constant are verified.",
    "DATE with a column of INTEGER": "Spark's dates begin again at their end, without an error.",
    "date_trunc of decade, century, millennium": "Spark has none.",
    "epoch of TIMESTAMP WITH TIME ZONE": "DuckDB computes it in two steps that round otherwise.",
    "strptime": "DuckDB reads more texts than Spark for the same format.",
    "strftime with other codes": "Java has none, or writes another text.",
    "make_timestamp, to_timestamp, make_time": "Their ranges differ.",
    "now, current_date, random, uuid": "They differ from one run to the next.",
    "AT TIME ZONE": "The tables of zones of the engines may differ.",
    "CAST of DOUBLE or FLOAT to VARCHAR": "The engines write numbers differently.",
    "CAST of DOUBLE to DECIMAL with more than 18 digits or 4 behind the point": "Not verified.",
    "CAST of DECIMAL to FLOAT": "DuckDB rounds in steps of its own.",
    "TRY_CAST of VARCHAR to numbers, DATE, TIMESTAMP": (
        "DuckDB reads forms such as 1_000 that Spark does not, and gives no error for the others."
    ),
    "CAST of VARCHAR to FLOAT, BLOB, TIMESTAMP WITH TIME ZONE": "The forms differ.",
    "CAST of lists and structs": "Not verified.",
    "CAST to HUGEINT and unsigned types": "Spark has no such types.",
    "list_distinct, list_unique": "The order of the result is not fixed.",
    "list[i] with a column, list_slice, negative places": "Only constant places are verified.",
    "list_transform, list_filter, list_reduce": "Functions of functions are not verified.",
    "list_sum and other aggregates of lists": "Not verified.",
    "struct_pack, {'a': x}": "The translator writes them itself where it can.",
    "map functions, JSON functions": "Not verified.",
    "comparison of lists and structs by <, >": "NULLs inside are last in DuckDB, first in Spark.",
    "coalesce, greatest, least, concat, list_value of more than four": "Only so many are verified.",
}
