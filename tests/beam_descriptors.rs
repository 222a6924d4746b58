//! Our .proto files and URNs against those of an installed apache-beam package.
//!
//! Both sides become sets of lines, one for each message, field, enum value, service and method;
//! the sets must be equal. Options are compared as bytes, and Beam's URNs stand in them.

mod beam_package;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use prost::Message;

#[test]
fn every_descriptor() {
    let Some(theirs) = beam_descriptors() else {
        return;
    };
    let ours = raw::Set::decode(tidemill::proto::DESCRIPTORS).expect("our descriptors");
    assert_same(&lines(&ours), &lines(&theirs), "descriptors");
}

#[test]
fn every_urn() {
    let Some(theirs) = beam_descriptors() else {
        return;
    };
    let mut urns = BTreeSet::new();
    for file in theirs.file.iter().filter(|file| is_beam(file)) {
        for message in &file.message {
            urns_of(message, "", &mut urns);
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("beam-protos/src/urn.rs");
    let source = fs::read_to_string(path).expect("urn.rs");
    assert_same(&urn_constants(&source), &urns, "URNs");
}

fn beam_descriptors() -> Option<raw::Set> {
    let folder = beam_package::folder()?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/beam_package/descriptors.py");
    let output = Command::new(beam_package::python())
        .arg(script)
        .arg(folder)
        .output()
        .expect("python starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(raw::Set::decode(&output.stdout[..]).expect("a FileDescriptorSet"))
}

fn assert_same(ours: &BTreeSet<String>, theirs: &BTreeSet<String>, what: &str) {
    let missing: Vec<_> = theirs.difference(ours).collect();
    let surplus: Vec<_> = ours.difference(theirs).collect();
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "{what} that Beam has and we lack: {missing:#?}\n{what} that only we have: {surplus:#?}"
    );
    println!("{} lines of {what} are the same", ours.len());
    assert!(!ours.is_empty(), "nothing was compared");
}

fn is_beam(file: &raw::File) -> bool {
    file.package.starts_with("org.apache.beam.")
}

fn lines(set: &raw::Set) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for file in set.file.iter().filter(|file| is_beam(file)) {
        let package = &file.package;
        lines.insert(format!("file {} of {package}", file.name));
        for message in &file.message {
            message_lines(message, package, &mut lines);
        }
        for item in &file.enumeration {
            enum_lines(item, package, &mut lines);
        }
        for field in &file.extension {
            lines.insert(format!("extension {}", field_line(field, package, &[])));
        }
        for service in &file.service {
            let service_name = format!("{package}.{}", service.name);
            lines.insert(format!("service {service_name}"));
            for method in &service.method {
                lines.insert(format!("method {service_name} {method:?}"));
            }
        }
    }
    lines
}

fn message_lines(message: &raw::Message, scope: &str, lines: &mut BTreeSet<String>) {
    let name = format!("{scope}.{}", message.name);
    lines.insert(format!("message {name} {:x?}", message.options));
    for field in &message.field {
        lines.insert(format!(
            "field {}",
            field_line(field, &name, &message.oneof)
        ));
    }
    for field in &message.extension {
        lines.insert(format!("extension {}", field_line(field, &name, &[])));
    }
    for nested in &message.message {
        message_lines(nested, &name, lines);
    }
    for item in &message.enumeration {
        enum_lines(item, &name, lines);
    }
}

fn field_line(field: &raw::Field, scope: &str, oneofs: &[raw::Oneof]) -> String {
    let index = field
        .oneof_index
        .and_then(|index| usize::try_from(index).ok());
    let oneof = index.and_then(|index| oneofs.get(index));
    let field = raw::Field {
        oneof_index: None,
        ..field.clone()
    };
    format!("{scope} {:?} {field:?}", oneof.map(|oneof| &oneof.name))
}

fn enum_lines(item: &raw::Enum, scope: &str, lines: &mut BTreeSet<String>) {
    for value in &item.value {
        let mut value = value.clone();
        let mut options = raw::UrnOptions::decode(&value.options[..]).expect("options");
        if let Some(spec) = &mut options.monitoring_info {
            // Beam's descriptions of metrics are prose, which we do not copy.
            spec.annotation.retain(|note| note.key != "description");
            value.options = options.encode_to_vec();
        }
        lines.insert(format!("value {scope}.{} {value:?}", item.name));
    }
}

/// Lines `Message.Enum.VALUE = urn` of all enum values with a URN.
fn urns_of(message: &raw::Message, scope: &str, urns: &mut BTreeSet<String>) {
    let name = format!("{scope}{}", message.name);
    for item in &message.enumeration {
        for value in &item.value {
            let options = raw::UrnOptions::decode(&value.options[..]).expect("options");
            let spec = options.monitoring_info.unwrap_or_default();
            for urn in [options.urn, spec.urn] {
                if !urn.is_empty() {
                    let place = urn_place(&name, &item.name);
                    urns.insert(format!("{place}.{} = {urn}", value.name));
                }
            }
        }
    }
    for nested in &message.message {
        urns_of(nested, &format!("{name}."), urns);
    }
}

/// Where urn.rs keeps the URNs of an enum; one that is called `Enum` goes by its message.
fn urn_place(message: &str, item: &str) -> String {
    match item {
        "Enum" => message.into(),
        other => format!("{message}.{other}"),
    }
}

/// The same lines out of the source: each module's doc comment names the enum.
fn urn_constants(source: &str) -> BTreeSet<String> {
    let mut constants = BTreeSet::new();
    for module in source.split("/// `").skip(1) {
        let (place, body) = module
            .split_once("`.\n")
            .expect("a doc comment with a name");
        for constant in body.split("pub const ").skip(1) {
            let (name, rest) = constant.split_once(": &str =").expect("a string constant");
            let urn = rest.split('"').nth(1).expect("a string");
            constants.insert(format!("{place}.{name} = {urn}"));
        }
    }
    constants
}

/// Descriptors with options kept as the bytes they are, since Beam's URNs are extensions in them.
mod raw {
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Set {
        #[prost(message, repeated, tag = "1")]
        pub file: Vec<File>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct File {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(string, tag = "2")]
        pub package: String,
        #[prost(message, repeated, tag = "4")]
        pub message: Vec<Message>,
        #[prost(message, repeated, tag = "5")]
        pub enumeration: Vec<Enum>,
        #[prost(message, repeated, tag = "6")]
        pub service: Vec<Service>,
        #[prost(message, repeated, tag = "7")]
        pub extension: Vec<Field>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Message {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(message, repeated, tag = "2")]
        pub field: Vec<Field>,
        #[prost(message, repeated, tag = "3")]
        pub message: Vec<Message>,
        #[prost(message, repeated, tag = "4")]
        pub enumeration: Vec<Enum>,
        #[prost(message, repeated, tag = "6")]
        pub extension: Vec<Field>,
        #[prost(bytes = "vec", tag = "7")]
        pub options: Vec<u8>,
        #[prost(message, repeated, tag = "8")]
        pub oneof: Vec<Oneof>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Field {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(string, tag = "2")]
        pub extendee: String,
        #[prost(int32, tag = "3")]
        pub number: i32,
        #[prost(int32, tag = "4")]
        pub label: i32,
        #[prost(int32, tag = "5")]
        pub kind: i32,
        #[prost(string, tag = "6")]
        pub type_name: String,
        #[prost(string, tag = "7")]
        pub default: String,
        #[prost(bytes = "vec", tag = "8")]
        pub options: Vec<u8>,
        #[prost(int32, optional, tag = "9")]
        pub oneof_index: Option<i32>,
        #[prost(bool, tag = "17")]
        pub proto3_optional: bool,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Oneof {
        #[prost(string, tag = "1")]
        pub name: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Enum {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(message, repeated, tag = "2")]
        pub value: Vec<EnumValue>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct EnumValue {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(int32, tag = "2")]
        pub number: i32,
        #[prost(bytes = "vec", tag = "3")]
        pub options: Vec<u8>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Service {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(message, repeated, tag = "2")]
        pub method: Vec<Method>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Method {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(string, tag = "2")]
        pub input: String,
        #[prost(string, tag = "3")]
        pub output: String,
        #[prost(bool, tag = "5")]
        pub client_streaming: bool,
        #[prost(bool, tag = "6")]
        pub server_streaming: bool,
    }

    /// Beam's extensions of an enum value's options.
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct UrnOptions {
        #[prost(string, tag = "185324356")]
        pub urn: String,
        #[prost(message, optional, tag = "207174266")]
        pub monitoring_info: Option<MonitoringInfoSpec>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct MonitoringInfoSpec {
        #[prost(string, tag = "1")]
        pub urn: String,
        #[prost(string, tag = "2")]
        pub kind: String,
        #[prost(string, repeated, tag = "3")]
        pub required_label: Vec<String>,
        #[prost(message, repeated, tag = "4")]
        pub annotation: Vec<Annotation>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Annotation {
        #[prost(string, tag = "1")]
        pub key: String,
        #[prost(string, tag = "2")]
        pub value: String,
    }
}
