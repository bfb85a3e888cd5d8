//! Names and versions of results.

/// The type of a result's member `schema`. It reads and writes only its own name and version.
macro_rules! schema {
    ($name:literal) => {
        /// The name and version of this result.
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
        )]
        pub enum Schema {
            /// The first version.
            #[default]
            #[serde(rename = $name)]
            V1,
        }
    };
}
