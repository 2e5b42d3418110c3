"""The DuckDB functions a pushed filter may call.

All give the same answer for the same arguments in every session: no clock, no randomness, no time
zone, no setting. Left out on purpose: what can make a small filter produce huge values (`repeat`,
`lpad`, `range`), what takes a lambda, and what the optimizer invents for itself
(`__internal_compress_…`, `optional_filter`).
"""

# Written between two arguments, or before one.
OPERATORS = frozenset(
    {"+", "-", "*", "/", "//", "%", "&", "|", "<<", ">>", "~"}
    | {"||", "^@", "~~", "!~~", "~~*", "!~~*", "~~~"}  # text; ~~ is LIKE, ~~* ILIKE, ~~~ GLOB
)

_NAMES = {
    "numbers": """
        abs add bit_count ceil ceiling divide even floor gcd greatest greatest_common_divisor
        isfinite isinf isnan lcm least least_common_multiple mod multiply round sign signbit
        subtract trunc xor""",
    # like_escape and its kin are LIKE … ESCAPE; prefix and suffix are LIKE 'a%' and LIKE '%a'.
    "text and bytes": """
        ascii bit_length char_length character_length concat contains encode ends_with hex
        ilike_escape instr lcase left left_grapheme len length length_grapheme like_escape lower
        ltrim md5 nfc_normalize not_ilike_escape not_like_escape octet_length ord position prefix
        regexp_extract regexp_full_match regexp_matches regexp_replace replace reverse right rtrim
        sha256 split starts_with str_split string_split strip_accents strlen strpos substr
        substring substring_grapheme suffix translate trim ucase unicode upper""",
    "dates and times without a zone": """
        century date_diff date_part date_sub date_trunc datediff datepart datesub datetrunc day
        dayname dayofmonth dayofweek dayofyear decade epoch epoch_ms epoch_ns epoch_us era hour
        isodow isoyear julian last_day make_date microsecond millennium millisecond minute month
        monthname nanosecond normalized_interval quarter second strftime time_bucket to_days
        to_hours to_microseconds to_milliseconds to_minutes to_months to_seconds to_weeks to_years
        week weekday weekofyear year yearweek""",
    "nested values": """
        array_contains array_extract array_has array_has_all array_has_any array_length
        array_position array_slice cardinality element_at list_contains list_element list_extract
        list_has list_has_all list_has_any list_position list_slice map_contains map_extract
        map_extract_value map_keys map_values struct_extract struct_extract_at""",
    "JSON": "json_extract json_extract_string",
    # NULL if a later argument is NULL, else the first: what the optimizer makes of `x * 0`.
    "NULL": "constant_or_null",
}
FUNCTIONS = frozenset(name for names in _NAMES.values() for name in names.split())

# Names that cannot be called as they stand: `->` would be read as a lambda among arguments.
RENAMED = {"->": "json_extract", "->>": "json_extract_string"}

# By zero they give NULL, NaN or infinity as the client's `ieee_floating_point_ops` says.
FLOAT_DIVISIONS = frozenset({"/", "//", "%", "divide", "mod"})
