//! The output of `--json` matches the JSON schemas, and the models contain all of it.

use crate::support::{Small, ends, json, strict};
use pageset_trace::advise::Advice;
use pageset_trace::info::Info;
use pageset_trace::measure::ReplayResult;
use pageset_trace::measure::identification::Identification;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Validates a result against the schema that it names, and reads it into its model and back.
fn valid<T: DeserializeOwned + Serialize>(text: &str) {
    let result = json(text);
    let name = result["schema"].as_str().unwrap();
    let (_, schema) = pageset_trace::schemas().into_iter().find(|(of, _)| *of == name).unwrap();
    let schema = strict(schema.as_value());
    let errors: Vec<String> = schema.iter_errors(&result).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{name}: {errors:#?}");
    let model: T = serde_json::from_value(result.clone()).unwrap();
    assert_eq!(serde_json::to_value(&model).unwrap(), result, "{name}: a member that the model does not have");
    for member in result.as_object().unwrap().iter().filter(|(_, value)| !value.is_null()).map(|(member, _)| member) {
        let mut without = result.clone();
        without.as_object_mut().unwrap().remove(member);
        let nullable = schema.is_valid(&without);
        let optional =
            ["only", "check", "kernel_release", "by_release", "gain", "price", "knobs"].contains(&member.as_str());
        assert_eq!(nullable, optional, "{name} without {member}");
    }
    let mut other = result.clone();
    other["schema"] = Value::from(format!("{name}0"));
    assert!(!schema.is_valid(&other), "{name}: another version");
}

#[test]
fn results_match_their_schemas() {
    let small = Small::new();
    let arguments: [&dyn AsRef<std::path::Path>; 9] = [
        &"replay",
        &small.events(),
        &"--rules",
        &"kernel,linux-5.18",
        &"--only",
        &"cpu=0",
        &"--check",
        &"--lossy",
        &"--json",
    ];
    valid::<ReplayResult>(&ends(1, &arguments).0);
    valid::<ReplayResult>(&ends(0, &[&"replay", &small.events(), &"--json"]).0);
    valid::<Identification>(&ends(0, &[&"replay", &small.events(), &"--identify", &"--json"]).0);
    valid::<Advice>(&ends(0, &[&"advise", &small.events(), &"--json"]).0);
    valid::<Info>(&ends(0, &[&"trace", &"info", &small.events(), &"--json"]).0);
}

/// Results of versions without other knobs can still be read.
#[test]
fn members_of_other_knobs_are_optional() {
    fn remove(value: &mut Value) {
        match value {
            Value::Object(object) => {
                object.retain(|name, _| !NEW.contains(&name.as_str()));
                object.values_mut().for_each(remove);
            }
            Value::Array(all) => all.iter_mut().for_each(remove),
            _ => {}
        }
    }
    const NEW: [&str; 5] =
        ["knobs", "watermark_scale_factor", "low_watermark_pages", "huge_page_allocs", "socket_blocks_pct"];
    let mut result = json(&ends(0, &[&"advise", &Small::new().events(), &"--json"]).0);
    remove(&mut result);
    let (_, schema) = pageset_trace::schemas().into_iter().find(|(of, _)| *of == "pageset.advise/1").unwrap();
    jsonschema::validate(schema.as_value(), &result).unwrap();
    let advice: Advice = serde_json::from_value(result).unwrap();
    assert!(advice.scales().is_empty() && advice.affinity_gain().is_none());
}
