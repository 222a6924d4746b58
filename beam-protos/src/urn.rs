//! Every URN that Beam 2.77 defines, grouped by the enum that defines it.

/// `StandardPTransforms.Primitives`.
pub mod primitives {
    pub const PAR_DO: &str = "beam:transform:pardo:v1";
    pub const FLATTEN: &str = "beam:transform:flatten:v1";
    pub const GROUP_BY_KEY: &str = "beam:transform:group_by_key:v1";
    pub const IMPULSE: &str = "beam:transform:impulse:v1";
    pub const ASSIGN_WINDOWS: &str = "beam:transform:window_into:v1";
    pub const TEST_STREAM: &str = "beam:transform:teststream:v1";
    pub const MAP_WINDOWS: &str = "beam:transform:map_windows:v1";
    pub const MERGE_WINDOWS: &str = "beam:transform:merge_windows:v1";
    pub const TO_STRING: &str = "beam:transform:to_string:v1";
}

/// `StandardPTransforms.DeprecatedPrimitives`.
pub mod deprecated_primitives {
    pub const READ: &str = "beam:transform:read:v1";
    pub const CREATE_VIEW: &str = "beam:transform:create_view:v1";
}

/// `StandardPTransforms.Composites`.
pub mod composites {
    pub const COMBINE_PER_KEY: &str = "beam:transform:combine_per_key:v1";
    pub const COMBINE_GLOBALLY: &str = "beam:transform:combine_globally:v1";
    pub const RESHUFFLE: &str = "beam:transform:reshuffle:v1";
    pub const WRITE_FILES: &str = "beam:transform:write_files:v1";
    pub const PUBSUB_READ: &str = "beam:transform:pubsub_read:v1";
    pub const PUBSUB_WRITE: &str = "beam:transform:pubsub_write:v1";
    pub const PUBSUB_WRITE_V2: &str = "beam:transform:pubsub_write:v2";
    pub const GROUP_INTO_BATCHES_WITH_SHARDED_KEY: &str =
        "beam:transform:group_into_batches_with_sharded_key:v1";
    pub const REDISTRIBUTE_BY_KEY: &str = "beam:transform:redistribute_by_key:v1";
    pub const REDISTRIBUTE_ARBITRARILY: &str = "beam:transform:redistribute_arbitrarily:v1";
}

/// `StandardPTransforms.CombineComponents`.
pub mod combine_components {
    pub const COMBINE_PER_KEY_PRECOMBINE: &str = "beam:transform:combine_per_key_precombine:v1";
    pub const COMBINE_PER_KEY_MERGE_ACCUMULATORS: &str =
        "beam:transform:combine_per_key_merge_accumulators:v1";
    pub const COMBINE_PER_KEY_EXTRACT_OUTPUTS: &str =
        "beam:transform:combine_per_key_extract_outputs:v1";
    pub const COMBINE_GROUPED_VALUES: &str = "beam:transform:combine_grouped_values:v1";
    pub const COMBINE_PER_KEY_CONVERT_TO_ACCUMULATORS: &str =
        "beam:transform:combine_per_key_convert_to_accumulators:v1";
}

/// `StandardPTransforms.SplittableParDoComponents`.
pub mod splittable_par_do_components {
    pub const PAIR_WITH_RESTRICTION: &str = "beam:transform:sdf_pair_with_restriction:v1";
    pub const SPLIT_AND_SIZE_RESTRICTIONS: &str =
        "beam:transform:sdf_split_and_size_restrictions:v1";
    pub const PROCESS_SIZED_ELEMENTS_AND_RESTRICTIONS: &str =
        "beam:transform:sdf_process_sized_element_and_restrictions:v1";
    pub const TRUNCATE_SIZED_RESTRICTION: &str =
        "beam:transform:sdf_truncate_sized_restrictions:v1";
}

/// `StandardPTransforms.GroupIntoBatchesComponents`.
pub mod group_into_batches_components {
    pub const GROUP_INTO_BATCHES: &str = "beam:transform:group_into_batches:v1";
}

/// `StandardSideInputTypes`.
pub mod side_input_types {
    pub const ITERABLE: &str = "beam:side_input:iterable:v1";
    pub const MULTIMAP: &str = "beam:side_input:multimap:v1";
}

/// `StandardUserStateTypes`.
pub mod user_state_types {
    pub const BAG: &str = "beam:user_state:bag:v1";
    pub const MULTIMAP: &str = "beam:user_state:multimap:v1";
    pub const ORDERED_LIST: &str = "beam:user_state:ordered_list:v1";
}

/// `StandardCoders`.
pub mod coders {
    pub const BYTES: &str = "beam:coder:bytes:v1";
    pub const STRING_UTF8: &str = "beam:coder:string_utf8:v1";
    pub const KV: &str = "beam:coder:kv:v1";
    pub const BOOL: &str = "beam:coder:bool:v1";
    pub const VARINT: &str = "beam:coder:varint:v1";
    pub const DOUBLE: &str = "beam:coder:double:v1";
    pub const ITERABLE: &str = "beam:coder:iterable:v1";
    pub const TIMER: &str = "beam:coder:timer:v1";
    pub const INTERVAL_WINDOW: &str = "beam:coder:interval_window:v1";
    pub const LENGTH_PREFIX: &str = "beam:coder:length_prefix:v1";
    pub const GLOBAL_WINDOW: &str = "beam:coder:global_window:v1";
    pub const WINDOWED_VALUE: &str = "beam:coder:windowed_value:v1";
    pub const PARAM_WINDOWED_VALUE: &str = "beam:coder:param_windowed_value:v1";
    pub const STATE_BACKED_ITERABLE: &str = "beam:coder:state_backed_iterable:v1";
    pub const CUSTOM_WINDOW: &str = "beam:coder:custom_window:v1";
    pub const ROW: &str = "beam:coder:row:v1";
    pub const SCHEMA: &str = "beam:coder:schema:v1";
    pub const SHARDED_KEY: &str = "beam:coder:sharded_key:v1";
    pub const NULLABLE: &str = "beam:coder:nullable:v1";
}

/// `StandardArtifacts.Types`.
pub mod types {
    pub const FILE: &str = "beam:artifact:type:file:v1";
    pub const URL: &str = "beam:artifact:type:url:v1";
    pub const EMBEDDED: &str = "beam:artifact:type:embedded:v1";
    pub const PYPI: &str = "beam:artifact:type:pypi:v1";
    pub const MAVEN: &str = "beam:artifact:type:maven:v1";
    pub const DEFERRED: &str = "beam:artifact:type:deferred:v1";
}

/// `StandardArtifacts.Roles`.
pub mod roles {
    pub const STAGING_TO: &str = "beam:artifact:role:staging_to:v1";
    pub const PIP_REQUIREMENTS_FILE: &str = "beam:artifact:role:pip_requirements_file:v1";
    pub const GO_WORKER_BINARY: &str = "beam:artifact:role:go_worker_binary:v1";
}

/// `StandardEnvironments.Environments`.
pub mod environments {
    pub const DOCKER: &str = "beam:env:docker:v1";
    pub const PROCESS: &str = "beam:env:process:v1";
    pub const EXTERNAL: &str = "beam:env:external:v1";
    pub const DEFAULT: &str = "beam:env:default:v1";
    pub const ANYOF: &str = "beam:env:anyof:v1";
}

/// `StandardProtocols`.
pub mod protocols {
    pub const LEGACY_PROGRESS_REPORTING: &str = "beam:protocol:progress_reporting:v0";
    pub const PROGRESS_REPORTING: &str = "beam:protocol:progress_reporting:v1";
    pub const WORKER_STATUS: &str = "beam:protocol:worker_status:v1";
    pub const MULTI_CORE_BUNDLE_PROCESSING: &str = "beam:protocol:multi_core_bundle_processing:v1";
    pub const SIBLING_WORKERS: &str = "beam:protocol:sibling_workers:v1";
    pub const HARNESS_MONITORING_INFOS: &str = "beam:protocol:harness_monitoring_infos:v1";
    pub const CONTROL_REQUEST_ELEMENTS_EMBEDDING: &str =
        "beam:protocol:control_request_elements_embedding:v1";
    pub const STATE_CACHING: &str = "beam:protocol:state_caching:v1";
    pub const DATA_SAMPLING: &str = "beam:protocol:data_sampling:v1";
    pub const SDK_CONSUMING_RECEIVED_DATA: &str = "beam:protocol:sdk_consuming_received_data:v1";
    pub const ORDERED_LIST_STATE: &str = "beam:protocol:ordered_list_state:v1";
    pub const ELEMENT_METADATA: &str = "beam:protocol:element_metadata:v1";
    pub const MULTIMAP_STATE: &str = "beam:protocol:multimap_state:v1";
    pub const NAMED_DATA_STREAMS: &str = "beam:protocol:named_data_streams:v1";
}

/// `StandardRunnerProtocols`.
pub mod runner_protocols {
    pub const MONITORING_INFO_SHORT_IDS: &str = "beam:protocol:monitoring_info_short_ids:v1";
    pub const CONTROL_RESPONSE_ELEMENTS_EMBEDDING: &str =
        "beam:protocol:control_response_elements_embedding:v1";
    pub const MULTIMAP_KEYS_VALUES_SIDE_INPUT: &str =
        "beam:protocol:multimap_keys_values_side_input:v1";
}

/// `StandardRequirements`.
pub mod requirements {
    pub const REQUIRES_STATEFUL_PROCESSING: &str = "beam:requirement:pardo:stateful:v1";
    pub const REQUIRES_BUNDLE_FINALIZATION: &str = "beam:requirement:pardo:finalization:v1";
    pub const REQUIRES_STABLE_INPUT: &str = "beam:requirement:pardo:stable_input:v1";
    pub const REQUIRES_TIME_SORTED_INPUT: &str = "beam:requirement:pardo:time_sorted_input:v1";
    pub const REQUIRES_SPLITTABLE_DOFN: &str = "beam:requirement:pardo:splittable_dofn:v1";
    pub const REQUIRES_ON_WINDOW_EXPIRATION: &str =
        "beam:requirement:pardo:on_window_expiration:v1";
}

/// `StandardDisplayData.DisplayData`.
pub mod display_data {
    pub const LABELLED: &str = "beam:display_data:labelled:v1";
}

/// `StandardResourceHints`.
pub mod resource_hints {
    pub const ACCELERATOR: &str = "beam:resources:accelerator:v1";
    pub const MIN_RAM_BYTES: &str = "beam:resources:min_ram_bytes:v1";
    pub const CPU_COUNT: &str = "beam:resources:cpu_count:v1";
    pub const MAX_ACTIVE_BUNDLES_PER_WORKER: &str =
        "beam:resources:max_active_bundles_per_worker:v1";
}

/// `ExpansionMethods`.
pub mod expansion_methods {
    pub const JAVA_CLASS_LOOKUP: &str = "beam:expansion:payload:java_class_lookup:v1";
    pub const SCHEMA_TRANSFORM: &str = "beam:expansion:payload:schematransform:v1";
}

/// `ManagedTransforms.Urns`.
pub mod urns {
    pub const ICEBERG_READ: &str = "beam:schematransform:org.apache.beam:iceberg_read:v1";
    pub const ICEBERG_WRITE: &str = "beam:schematransform:org.apache.beam:iceberg_write:v1";
    pub const KAFKA_READ: &str = "beam:schematransform:org.apache.beam:kafka_read:v1";
    pub const KAFKA_WRITE: &str = "beam:schematransform:org.apache.beam:kafka_write:v1";
    pub const BIGQUERY_READ: &str = "beam:schematransform:org.apache.beam:bigquery_storage_read:v1";
    pub const BIGQUERY_WRITE: &str = "beam:schematransform:org.apache.beam:bigquery_write:v1";
    pub const ICEBERG_CDC_READ: &str = "beam:schematransform:org.apache.beam:iceberg_cdc_read:v1";
    pub const POSTGRES_READ: &str = "beam:schematransform:org.apache.beam:postgres_read:v1";
    pub const POSTGRES_WRITE: &str = "beam:schematransform:org.apache.beam:postgres_write:v1";
    pub const MYSQL_READ: &str = "beam:schematransform:org.apache.beam:mysql_read:v1";
    pub const MYSQL_WRITE: &str = "beam:schematransform:org.apache.beam:mysql_write:v1";
    pub const SQL_SERVER_READ: &str = "beam:schematransform:org.apache.beam:sql_server_read:v1";
    pub const SQL_SERVER_WRITE: &str = "beam:schematransform:org.apache.beam:sql_server_write:v1";
    pub const DELTA_LAKE_READ: &str = "beam:schematransform:org.apache.beam:delta_lake_read:v1";
    pub const DELTA_LAKE_CDC_READ: &str =
        "beam:schematransform:org.apache.beam:delta_lake_cdc_read:v1";
}

/// `MonitoringInfoSpecs`.
pub mod monitoring_info_specs {
    pub const USER_SUM_INT64: &str = "beam:metric:user:sum_int64:v1";
    pub const USER_SUM_DOUBLE: &str = "beam:metric:user:sum_double:v1";
    pub const USER_DISTRIBUTION_INT64: &str = "beam:metric:user:distribution_int64:v1";
    pub const USER_DISTRIBUTION_DOUBLE: &str = "beam:metric:user:distribution_double:v1";
    pub const USER_LATEST_INT64: &str = "beam:metric:user:latest_int64:v1";
    pub const USER_LATEST_DOUBLE: &str = "beam:metric:user:latest_double:v1";
    pub const USER_TOP_N_INT64: &str = "beam:metric:user:top_n_int64:v1";
    pub const USER_TOP_N_DOUBLE: &str = "beam:metric:user:top_n_double:v1";
    pub const USER_BOTTOM_N_INT64: &str = "beam:metric:user:bottom_n_int64:v1";
    pub const USER_BOTTOM_N_DOUBLE: &str = "beam:metric:user:bottom_n_double:v1";
    pub const USER_SET_STRING: &str = "beam:metric:user:set_string:v1";
    pub const USER_BOUNDED_TRIE: &str = "beam:metric:user:bounded_trie:v1";
    pub const ELEMENT_COUNT: &str = "beam:metric:element_count:v1";
    pub const SAMPLED_BYTE_SIZE: &str = "beam:metric:sampled_byte_size:v1";
    pub const START_BUNDLE_MSECS: &str = "beam:metric:pardo_execution_time:start_bundle_msecs:v1";
    pub const PROCESS_BUNDLE_MSECS: &str =
        "beam:metric:pardo_execution_time:process_bundle_msecs:v1";
    pub const FINISH_BUNDLE_MSECS: &str = "beam:metric:pardo_execution_time:finish_bundle_msecs:v1";
    pub const TOTAL_MSECS: &str = "beam:metric:ptransform_execution_time:total_msecs:v1";
    pub const WORK_REMAINING: &str = "beam:metric:ptransform_progress:remaining:v1";
    pub const WORK_COMPLETED: &str = "beam:metric:ptransform_progress:completed:v1";
    pub const DATA_CHANNEL_READ_INDEX: &str = "beam:metric:data_channel:read_index:v1";
    pub const API_REQUEST_COUNT: &str = "beam:metric:io:api_request_count:v1";
    pub const API_REQUEST_LATENCIES: &str = "beam:metric:io:api_request_latencies:v1";
    pub const USER_HISTOGRAM: &str = "beam:metric:user:histogram_int64:v1";
}

/// `MonitoringInfoTypeUrns`.
pub mod monitoring_info_type_urns {
    pub const SUM_INT64_TYPE: &str = "beam:metrics:sum_int64:v1";
    pub const SUM_DOUBLE_TYPE: &str = "beam:metrics:sum_double:v1";
    pub const DISTRIBUTION_INT64_TYPE: &str = "beam:metrics:distribution_int64:v1";
    pub const DISTRIBUTION_DOUBLE_TYPE: &str = "beam:metrics:distribution_double:v1";
    pub const LATEST_INT64_TYPE: &str = "beam:metrics:latest_int64:v1";
    pub const LATEST_DOUBLE_TYPE: &str = "beam:metrics:latest_double:v1";
    pub const TOP_N_INT64_TYPE: &str = "beam:metrics:top_n_int64:v1";
    pub const TOP_N_DOUBLE_TYPE: &str = "beam:metrics:top_n_double:v1";
    pub const BOTTOM_N_INT64_TYPE: &str = "beam:metrics:bottom_n_int64:v1";
    pub const BOTTOM_N_DOUBLE_TYPE: &str = "beam:metrics:bottom_n_double:v1";
    pub const PROGRESS_TYPE: &str = "beam:metrics:progress:v1";
    pub const SET_STRING_TYPE: &str = "beam:metrics:set_string:v1";
    pub const BOUNDED_TRIE_TYPE: &str = "beam:metrics:bounded_trie:v1";
    pub const HISTOGRAM: &str = "beam:metrics:histogram_int64:v1";
}

/// `LogicalTypes`.
pub mod logical_types {
    pub const PYTHON_CALLABLE: &str = "beam:logical_type:python_callable:v1";
    pub const MICROS_INSTANT: &str = "beam:logical_type:micros_instant:v1";
    pub const MILLIS_INSTANT: &str = "beam:logical_type:millis_instant:v1";
    pub const DECIMAL: &str = "beam:logical_type:decimal:v1";
    pub const FIXED_BYTES: &str = "beam:logical_type:fixed_bytes:v1";
    pub const VAR_BYTES: &str = "beam:logical_type:var_bytes:v1";
    pub const FIXED_CHAR: &str = "beam:logical_type:fixed_char:v1";
    pub const VAR_CHAR: &str = "beam:logical_type:var_char:v1";
    pub const DATE: &str = "beam:logical_type:date:v1";
    pub const TIMESTAMP: &str = "beam:logical_type:timestamp:v1";
}

/// `GlobalWindowsPayload`.
pub mod global_windows_payload {
    pub const PROPERTIES: &str = "beam:window_fn:global_windows:v1";
}

/// `FixedWindowsPayload`.
pub mod fixed_windows_payload {
    pub const PROPERTIES: &str = "beam:window_fn:fixed_windows:v1";
}

/// `SlidingWindowsPayload`.
pub mod sliding_windows_payload {
    pub const PROPERTIES: &str = "beam:window_fn:sliding_windows:v1";
}

/// `SessionWindowsPayload`.
pub mod session_windows_payload {
    pub const PROPERTIES: &str = "beam:window_fn:session_windows:v1";
}

/// `FnApiTransforms.Runner`.
pub mod runner {
    pub const DATA_SOURCE: &str = "beam:runner:source:v1";
    pub const DATA_SINK: &str = "beam:runner:sink:v1";
}
