//! Who a process is, in words that all hosts share.
//!
//! | label | the first that is known |
//! |---|---|
//! | service | flag; `OTEL_SERVICE_NAME`, `service.name` of the process; the program's name |
//! | version | flag; `service.version` of the process |
//! | region | flag; `cloud.region`, `cloud.availability_zone` of the process; the same of the shipper |
//! | host | flag; `k8s.node.name`, `NODE_NAME`, `host.name` of the process; the same of the shipper; the machine's name |
//! | container | flag; `k8s.pod.name` or `POD_NAME` of the process, after its namespace and a slash; `container.name`, `container.id`; the id in its control group |
//!
//! The shipper's own service and version are those of the shipper, not of the processes: they count for nothing.

use highwater_collector::Environment;
use highwater_lake::rows::Labels;

/// Labels become parts of paths, where most bytes beyond letters and digits take three characters. A file name has at most 255.
const MOST_PATH_BYTES: usize = 200;

/// What labels processes, apart from themselves.
#[derive(Clone, Debug, Default)]
pub struct LabelRules {
    flags: Labels,
    own: Environment,
    machine: String,
}

/// A label that the lake has no column for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no label '{0}'; labels are service, version, region, host and container")]
pub struct UnknownLabel(pub String);

impl LabelRules {
    /// Rules without flags. `machine` is the name of the machine.
    pub fn new(own: Environment, machine: &str) -> Self {
        Self { flags: Labels::default(), own, machine: machine.to_owned() }
    }

    /// Sets a label of all processes. The names of OpenTelemetry's attributes are known, too.
    pub fn set(&mut self, label: &str, value: &str) -> Result<(), UnknownLabel> {
        let flags = &mut self.flags;
        let place = match label {
            "service" | "service.name" => &mut flags.service,
            "version" | "service.version" => &mut flags.version,
            "region" | "cloud.region" => &mut flags.region,
            "host" | "host.name" => &mut flags.host,
            "container" | "container.name" => &mut flags.container,
            _ => return Err(UnknownLabel(label.to_owned())),
        };
        *place = clean_label(value);
        Ok(())
    }

    /// The host of the shipper.
    pub fn host(&self) -> String {
        clean_label(first([Some(self.flags.host.as_str()), host_in(&self.own), Some(&self.machine), Some("unknown")]))
    }

    /// The labels of a process. `program` is its name, `container` the id in its control group.
    pub fn labels(&self, its: &Environment, program: &str, container: Option<&str>) -> Labels {
        let flags = &self.flags;
        let region = |of: &'_ Environment| -> Option<String> {
            of.attribute("cloud.region").or_else(|| of.attribute("cloud.availability_zone")).map(str::to_owned)
        };
        let pod = pod_in(its);
        // A process title: `nginx: worker process`.
        let program = program.split(": ").next();
        Labels {
            service: clean_label(first([
                Some(flags.service.as_str()),
                its.variable("OTEL_SERVICE_NAME"),
                its.attribute("service.name"),
                program,
                Some("unknown"),
            ])),
            version: clean_label(first([Some(flags.version.as_str()), its.attribute("service.version")])),
            region: clean_label(first([
                Some(flags.region.as_str()),
                region(its).as_deref(),
                region(&self.own).as_deref(),
            ])),
            host: match clean_label(first([Some(flags.host.as_str()), host_in(its)])) {
                host if host.is_empty() => self.host(),
                host => host,
            },
            container: clean_label(first([
                Some(flags.container.as_str()),
                pod.as_deref(),
                its.attribute("container.name"),
                its.attribute("container.id"),
                container,
            ])),
        }
    }
}

fn host_in(of: &Environment) -> Option<&str> {
    of.attribute("k8s.node.name").or_else(|| of.variable("NODE_NAME")).or_else(|| of.attribute("host.name"))
}

/// Pods of two namespaces may have the same name.
fn pod_in(of: &Environment) -> Option<String> {
    let pod = of.attribute("k8s.pod.name").or_else(|| of.variable("POD_NAME"))?;
    let namespace = of.attribute("k8s.namespace.name").or_else(|| of.variable("POD_NAMESPACE"));
    Some(namespace.map_or_else(|| pod.to_owned(), |namespace| format!("{namespace}/{pod}")))
}

/// The first text that is not empty once it is cleaned.
fn first<const N: usize>(texts: [Option<&str>; N]) -> &str {
    texts.into_iter().flatten().find(|text| !text.trim().is_empty()).unwrap_or_default()
}

/// A label without control characters and without white space around it, short enough for a file name even if it is percent-encoded.
pub fn clean_label(text: &str) -> String {
    let mut clean = String::new();
    let mut room = MOST_PATH_BYTES;
    for letter in text.trim().chars() {
        let letter = if letter.is_control() { char::REPLACEMENT_CHARACTER } else { letter };
        let is_plain = letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
        let bytes = if is_plain { 1 } else { letter.len_utf8() * 3 };
        match room.checked_sub(bytes) {
            Some(left) => room = left,
            None => break,
        }
        clean.push(letter);
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OTEL: &[u8] = b"PATH=/bin\0OTEL_SERVICE_NAME=shop\0OTEL_RESOURCE_ATTRIBUTES=service.name=other,\
        service.version=1.42%2Bgit,cloud.availability_zone=eu-1a,host.name=inner,k8s.pod.name=shop-7f,k8s.namespace.name=prod\0";

    fn labels(rules: &LabelRules, environment: &[u8]) -> [String; 5] {
        let found = rules.labels(&Environment::parse(environment), "nginx: worker process", Some("c0ffee"));
        [found.service, found.version, found.region, found.host, found.container]
    }

    #[test]
    fn a_process_is_named_by_its_environment_then_by_the_shipper_then_by_its_program() {
        let own = b"OTEL_SERVICE_NAME=shipper\0NODE_NAME=node-3\0OTEL_RESOURCE_ATTRIBUTES=cloud.region=eu-1,service.version=9\0";
        let rules = LabelRules::new(Environment::parse(own), "machine");
        assert_eq!(rules.host(), "node-3");
        assert_eq!(labels(&rules, b""), ["nginx", "", "eu-1", "node-3", "c0ffee"]);
        assert_eq!(labels(&rules, OTEL), ["shop", "1.42+git", "eu-1a", "inner", "prod/shop-7f"]);
        assert_eq!(
            labels(&rules, b"POD_NAME=p\0POD_NAMESPACE=n\0NODE_NAME=node-9"),
            ["nginx", "", "eu-1", "node-9", "n/p"]
        );
        let bare = LabelRules::new(Environment::default(), "machine");
        assert_eq!(labels(&bare, b"OTEL_SERVICE_NAME= \0"), ["nginx", "", "", "machine", "c0ffee"]);
    }

    #[test]
    fn flags_come_before_everything() {
        let mut rules = LabelRules::new(Environment::parse(b"NODE_NAME=node-3\0"), "machine");
        for (label, value) in
            [("service", "s"), ("service.version", "v"), ("region", "r"), ("host", "h"), ("container", "c")]
        {
            rules.set(label, value).unwrap();
        }
        assert_eq!(labels(&rules, OTEL), ["s", "v", "r", "h", "c"]);
        assert_eq!(rules.host(), "h");
        assert_eq!(rules.set("colour", "red"), Err(UnknownLabel("colour".to_owned())));
    }

    proptest! {
        #[test]
        fn any_environment_gives_labels_that_fit_into_paths(bytes in prop::collection::vec(any::<u8>(), 0..900)) {
            let mut environment = b"OTEL_SERVICE_NAME=".to_vec();
            environment.extend(bytes.iter().filter(|byte| **byte != 0));
            environment.extend(b"\0OTEL_RESOURCE_ATTRIBUTES=cloud.region=");
            environment.extend(&bytes);
            for label in labels(&LabelRules::new(Environment::parse(&environment), ""), &environment) {
                prop_assert!(!label.chars().any(char::is_control));
                let encoded: usize = label.bytes().map(|byte| if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) { 1 } else { 3 }).sum();
                prop_assert!(encoded <= MOST_PATH_BYTES);
            }
        }
    }
}
