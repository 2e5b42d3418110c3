"""Every function of DuckDB, judged once: who may call it.

The names are those of `duckdb_functions()` in DuckDB 1.5.5 with the extensions that jetbridge
loads. A test fails for a name that is not here, and for one that DuckDB no longer has. What is
not here, or `REFUSED_FUNCTIONS`, is refused to everybody but the person at the command.

`SIZES` is the list for stored expressions (CHECK, DEFAULT, USING) and pushed filters. It says how
large a result can be, which `growth` adds up. `RUN` is what `run` may call besides.
"""

from collections.abc import Mapping
from enum import Enum


class Size(Enum):
    """Name how many bytes a result has, by the bytes of the arguments; time grows likewise."""

    FIXED = "a number, a date, or something as short"
    PART = "a number or a date; which one is said by the first argument, a constant"
    DATED = "a date that is read from a string"
    SAME = "no more than the arguments together"
    DOUBLE = "up to twice the arguments"
    LONGER = "up to eight times the arguments"
    SORT = "the arguments in another order, with some memory besides"
    JSON = "up to eight times the arguments; JSON in memory takes much more than its text"
    JSON_FACT = "a number or a truth of JSON, which takes much more in memory than its text"
    PIECES = "a list of parts, each of which may be one character"
    SEARCH = "a number or a part; the time grows with the product of two arguments"
    LIKE = "a match of LIKE, whose pattern must be a constant"
    PATTERN = "the same; each wildcard multiplies the time by the length"
    REGEX = "a match of a regular expression, which must be a constant"
    REGEX_PIECES = "a list of matches of a constant regular expression"
    REGEX_REPLACE = "each match of a constant becomes another constant"
    REPLACE = "each occurrence of a constant becomes another constant"
    SPLIT = "the parts between occurrences of a constant"
    SEPARATED = "the arguments with a constant separator"
    PATH = "what a constant JSON path finds"
    REPEAT = "the first argument as many times as a constant says"
    PAD = "the first argument, at least as long as a constant says"
    COUNT = "as many values as constants say"
    FORMAT = "a constant text with the arguments in it"


def name_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _names(size: Size, text: str) -> dict[str, Size]:
    return dict.fromkeys(text.split(), size)


# Stored expressions and pushed filters may call these: no side effects, nothing of the machine,
# the session or the catalog, and a result that the arguments bound.
SIZES: Mapping[str, Size] = {
    **_names(
        Size.FIXED,
        """
        !__postfix % & && * ** + - / // << <=> <-> <@ >> @ @> ^ ^@ ~ |
        abs acos acosh add asin asinh atan atan2 atanh cbrt ceil ceiling cos cosh cot degrees divide
        even exp factorial fdiv floor fmod gamma gcd greatest_common_divisor isfinite isinf isnan
        lcm least_common_multiple lgamma ln log log10 log2 mod multiply nextafter pi pow power
        radians round round_even roundbankers sign signbit sin sinh sqrt subtract tan tanh trunc xor
        ascii bit_count bit_length bit_position char_length character_length chr cardinality
        ends_with enum_code get_bit hash is_histogram_other_bin len length length_grapheme md5
        md5_number md5_number_lower md5_number_upper octet_length ord prefix sha1 sha256
        starts_with strlen suffix unicode format_bytes pg_size_pretty formatreadabledecimalsize
        formatreadablesize parse_formatted_bytes array_length
        age century date_add
         day dayname dayofmonth dayofweek dayofyear days_in_month decade epoch epoch_ms
        epoch_ns epoch_us era hour isodow isoyear julian last_day make_date make_time
        make_timestamp make_timestamp_ms make_timestamp_ns make_timestamptz microsecond millennium
        millisecond minute month monthname nanosecond normalized_interval quarter second
        time_bucket timezone_hour timezone_minute to_centuries to_days to_decades to_hours
        to_microseconds to_millennia to_milliseconds to_minutes to_months to_quarters to_seconds
        to_timestamp to_weeks to_years week weekday weekofyear year yearweek
        uuid_extract_timestamp uuid_extract_version
        hamming mismatches jaccard array_cosine_distance array_cosine_similarity array_distance
        array_dot_product array_inner_product array_negative_dot_product
        array_negative_inner_product list_cosine_distance list_cosine_similarity list_distance
        list_dot_product list_inner_product list_negative_dot_product list_negative_inner_product
        list_avg list_bit_and list_bit_or list_bit_xor list_bool_and list_bool_or list_count
        list_kurtosis list_kurtosis_pop list_product list_sem list_skewness list_stddev_pop
        list_stddev_samp list_sum list_var_pop list_var_samp union_tag
        """,
    ),
    **_names(
        Size.PART,
        """
        date_diff date_part date_sub date_trunc datediff datepart datesub datetrunc timezone
        """,
    ),
    **_names(Size.DATED, "strptime try_strptime"),
    **_names(
        Size.SAME,
        """
        array_contains array_has array_indexof array_position list_contains list_has list_indexof
        list_position map_contains map_contains_entry map_contains_value struct_contains struct_has
        struct_indexof struct_position
        || concat left left_grapheme ltrim rtrim trim reverse right right_grapheme substr substring
        substring_grapheme constant_or_null nullif greatest least
        array_append array_cat array_concat array_pop_back array_pop_front array_prepend
        array_push_back array_push_front array_reverse list_append list_cat list_concat
        list_prepend list_reverse
        array_extract element_at list_element list_extract array_slice list_slice list_where
        array_where list_any_value list_first list_last list_max list_min
        struct_extract struct_extract_at struct_concat struct_insert struct_update
        map_concat map_extract map_extract_value union_extract
        parse_dirname parse_dirpath parse_filename from_hex unhex from_base64 unbin from_binary
        """,
    ),
    **_names(
        Size.DOUBLE,
        """
        lower lcase upper ucase nfc_normalize strip_accents translate url_decode decode encode
        set_bit union_value
        """,
    ),
    **_names(
        Size.LONGER,
        """
        base64 to_base64 bin to_binary hex to_hex regexp_escape url_encode icu_sort_key
        array_value list_pack list_value row struct_pack struct_values map map_entries
        map_from_entries map_keys map_values strftime
        """,
    ),
    **_names(
        Size.SORT,
        """
        array_distinct list_distinct array_sort list_sort array_reverse_sort list_reverse_sort
        list_zip array_zip flatten array_cross_product array_unique list_unique list_entropy
        list_approx_count_distinct list_mad list_median list_mode
        array_has_all array_has_any array_intersect list_has_all list_has_any list_intersect
        """,
    ),
    **_names(
        Size.JSON,
        """
        json json_quote to_json array_to_json row_to_json json_array json_object
        """,
    ),
    **_names(Size.JSON_FACT, "json_valid json_array_length"),
    **_names(Size.PIECES, "array_grade_up grade_up list_grade_up parse_path list_histogram"),
    **_names(
        Size.SEARCH,
        """
        contains instr position strpos
        """,
    ),
    **_names(Size.LIKE, "~~ !~~"),
    **_names(
        Size.PATTERN, "~~* !~~* ~~~ like_escape ilike_escape not_like_escape not_ilike_escape"
    ),
    **_names(Size.REGEX, "regexp_extract regexp_full_match regexp_matches"),
    **_names(
        Size.REGEX_PIECES,
        """
        regexp_extract_all regexp_split_to_array str_split_regex string_split_regex
        """,
    ),
    "regexp_replace": Size.REGEX_REPLACE,
    "replace": Size.REPLACE,
    **_names(Size.SPLIT, "split split_part str_split string_split string_to_array"),
    **_names(
        Size.SEPARATED,
        """
        array_to_string array_to_string_comma_default concat_ws list_string_agg
        """,
    ),
    **_names(
        Size.PATH,
        """
        ->> json_exists json_extract json_extract_path json_extract_path_text json_extract_string
        json_keys json_type json_value
        """,
    ),
    "repeat": Size.REPEAT,
    **_names(Size.PAD, "lpad rpad bar bitstring to_base array_resize list_resize"),
    **_names(Size.COUNT, "range generate_series"),
    **_names(Size.FORMAT, "format printf"),
}

# Their value changes from call to call: a DEFAULT or USING may call them, a CHECK may not.
CHANGING = name_set(
    """
    random uuid uuidv4 uuidv7 gen_random_uuid now today ago current_date current_localtime
    current_localtimestamp get_current_time get_current_timestamp transaction_timestamp
    """
)

# Of these DuckDB's parser knows, and its list of functions does not.
UNLISTED_CHANGING = name_set("current_time current_timestamp localtime localtimestamp")
UNLISTED_RUN = frozenset(["unnest"])

AGGREGATES = name_set(
    """
    any_value approx_count_distinct approx_quantile approx_top_k arbitrary arg_max arg_max_null
    arg_max_nulls_last arg_min arg_min_null arg_min_nulls_last argmax argmin array_agg avg
    bit_and bit_or bit_xor bitstring_agg bool_and bool_or corr count count_if count_star countif
    covar_pop covar_samp cume_dist dense_rank entropy favg fill first first_value fsum geomean
    geometric_mean group_concat histogram histogram_exact json_group_array json_group_object
    kahan_sum kurtosis kurtosis_pop lag last last_value lead list listagg mad max max_by mean
    median min min_by mode nth_value ntile percent_rank product quantile quantile_cont
    quantile_disc rank rank_dense regr_avgx regr_avgy regr_count regr_intercept regr_r2
    regr_slope regr_sxx regr_sxy regr_syy reservoir_quantile row_number sem skewness stddev
    stddev_pop stddev_samp string_agg sum sum_no_overflow sumkahan var_pop var_samp variance
    wavg weighted_avg
    """
)

# `run` may call these besides. Stored expressions may not: lambdas run for as long as they like;
# the time of some grows with the product of two lengths, and DuckDB cannot be interrupted in them;
# the size of others is not bounded by what they are given.
RUN = name_set(
    """
    apply array_apply array_filter array_reduce array_transform filter list_apply list_filter
    list_reduce list_transform reduce aggregate array_aggr array_aggregate list_aggr
    list_aggregate array_select list_select equi_width_bins enum_first enum_last enum_range
    enum_range_boundary generate_subscripts unpivot_list json_pretty json_transform
    json_transform_strict from_json from_json_strict regexp_split_to_table damerau_levenshtein
    editdist3 jaro_similarity jaro_winkler_similarity levenshtein alias can_cast_implicitly
    error pg_typeof struct_keys typeof st_asbinary st_astext st_aswkb st_aswkt st_crs
    st_geomfromwkb st_intersects_extent st_setcrs variant_extract variant_typeof iceberg_bucket
    iceberg_truncate
    """
)

# Nobody who calls from afar may use these, by what they do.
REFUSED_FUNCTIONS: Mapping[str, str] = {
    # The first group reads settings, variables, secrets, or what the machine and DuckDB are.
    **dict.fromkeys(
        name_set(
            """
    current_catalog current_connection_id current_database current_query current_query_id
    current_role current_schema current_schemas current_setting current_transaction_id
    current_user get_block_size getvariable in_search_path inet_client_addr inet_client_port
    inet_server_addr inet_server_port pg_conf_load_time pg_postmaster_start_time session_user
    stats txid_current user version
    """
        ),
        "tells of the session or the machine",
    ),
    **dict.fromkeys(
        name_set(
            """
    col_description format_pg_type format_type has_any_column_privilege has_column_privilege
    has_database_privilege has_foreign_data_wrapper_privilege has_function_privilege
    has_language_privilege has_schema_privilege has_sequence_privilege has_server_privilege
    has_table_privilege has_tablespace_privilege map_to_pg_oid obj_description
    pg_collation_is_visible pg_conversion_is_visible pg_function_is_visible pg_get_constraintdef
    pg_get_expr pg_get_viewdef pg_has_role pg_is_other_temp_schema pg_my_temp_schema
    pg_opclass_is_visible pg_operator_is_visible pg_opfamily_is_visible pg_table_is_visible
    pg_ts_config_is_visible pg_ts_dict_is_visible pg_ts_parser_is_visible
    pg_ts_template_is_visible pg_type_is_visible shobj_description
    """
        ),
        "reads the catalog of the embedded DuckDB",
    ),
    **dict.fromkeys(
        name_set("currval nextval pg_sleep setseed sleep_ms write_log"),
        "changes the state of the server, or waits",
    ),
    **dict.fromkeys(
        name_set("json_deserialize_sql json_serialize_plan json_serialize_sql"),
        "binds or prints other SQL",
    ),
    **dict.fromkeys(
        name_set("json_contains json_group_structure json_merge_patch json_structure"),
        "stops the process for JSON that is nested a million levels deep",
    ),
    **dict.fromkeys(
        name_set(
            """
    __internal_compress_integral_ubigint __internal_compress_integral_uinteger
    __internal_compress_integral_usmallint __internal_compress_integral_utinyint
    __internal_compress_string_hugeint __internal_compress_string_ubigint
    __internal_compress_string_uhugeint __internal_compress_string_uinteger
    __internal_compress_string_usmallint __internal_compress_string_utinyint
    __internal_decompress_integral_bigint __internal_decompress_integral_hugeint
    __internal_decompress_integral_integer __internal_decompress_integral_smallint
    __internal_decompress_integral_ubigint __internal_decompress_integral_uhugeint
    __internal_decompress_integral_uinteger __internal_decompress_integral_usmallint
    __internal_decompress_string cast_to_type combine create_sort_key finalize get_type
    iceberg_verify_equality_deletes make_type parse_duckdb_log_message remap_struct replace_type
    switch timetz_byte_comparable variant_bytes_to_variant variant_normalize
    variant_to_parquet_variant vector_type
    """
        ),
        "is internal: DuckDB does not check its arguments",
    ),
}

# Table functions that make rows of their arguments.
ROW_TABLE_FUNCTIONS = name_set(
    """
    unnest range generate_series repeat repeat_row json_each json_tree icu_calendar_names
    pg_timezone_names
    """
)
# Table functions that read files: only where the session may read some.
FILE_TABLE_FUNCTIONS = name_set(
    """
    glob read_parquet parquet_scan read_csv read_csv_auto sniff_csv read_json read_json_auto
    read_json_objects read_json_objects_auto read_ndjson read_ndjson_auto read_ndjson_objects
    read_text read_blob parquet_bloom_probe parquet_file_metadata parquet_full_metadata
    parquet_kv_metadata parquet_metadata parquet_schema
    """
)
# Read files, too, of which some are named in others: where they are cannot be seen beforehand.
REMOTE_FILE_TABLE_FUNCTIONS = name_set(
    """
    iceberg_column_stats iceberg_metadata iceberg_partition_stats iceberg_scan iceberg_snapshots
    read_avro read_duckdb
    """
)
REFUSED_TABLE_FUNCTIONS: Mapping[str, str] = {
    **dict.fromkeys(
        name_set(
            """
    duckdb_approx_database_count duckdb_columns duckdb_connection_count duckdb_constraints
    duckdb_coordinate_systems duckdb_databases duckdb_dependencies duckdb_extensions
    duckdb_external_file_cache duckdb_functions duckdb_indexes duckdb_keywords
    duckdb_log_contexts duckdb_logs duckdb_logs_parsed duckdb_memory duckdb_optimizers
    duckdb_prepared_statements duckdb_profiling_settings duckdb_schemas duckdb_secret_types
    duckdb_secrets duckdb_sequences duckdb_settings duckdb_table_sample duckdb_tables
    duckdb_temporary_files duckdb_types duckdb_variables duckdb_views pragma_collations
    pragma_database_size pragma_metadata_info pragma_platform pragma_show pragma_storage_info
    pragma_table_info pragma_user_agent pragma_version which_secret
    """
        ),
        "tells of the embedded DuckDB or the machine",
    ),
    **dict.fromkeys(
        name_set(
            """
    checkpoint disable_logging disable_profiling enable_logging enable_profiling
    force_checkpoint truncate_duckdb_logs iceberg_to_ducklake iceberg_load_table_response
    iceberg_schema_properties iceberg_table_properties remove_iceberg_schema_properties
    remove_iceberg_table_properties set_iceberg_schema_properties set_iceberg_table_properties
    """
        ),
        "changes a state, or reaches another catalog",
    ),
    **dict.fromkeys(
        name_set(
            """
    json_execute_serialized_sql query query_table histogram histogram_values summary
    """
        ),
        "runs other SQL, or reads a table by a name in its arguments",
    ),
    **dict.fromkeys(
        name_set(
            """
    arrow_scan arrow_scan_dumb pandas_scan python_map_function seq_scan test_all_types
    test_vector_types
    """
        ),
        "is internal: DuckDB does not check its arguments",
    ),
}


# The second argument is a type, written as JSON: nested deeply it stops the process.
JSON_TYPED_FUNCTIONS = frozenset(
    name_set("json_transform json_transform_strict from_json from_json_strict")
)


_ALL_RUN = AGGREGATES | RUN | UNLISTED_RUN


def is_stored(name: str) -> bool:
    """Return whether stored expressions and pushed filters may call a function."""
    return name in SIZES or name in CHANGING


def may_run(name: str) -> bool:
    """Return whether `run` may call a function where a value stands."""
    changing = name in CHANGING or name in UNLISTED_CHANGING
    return name in SIZES or changing or name in _ALL_RUN or is_collation(name)


def is_collation(name: str) -> bool:
    """Return whether a function compares by a language, of which ICU has many."""
    return name.startswith("icu_collate_")
