//! A shader compiler: naga translates WGSL to SPIR-V, Metal's language and GLSL.

use std::path::Path;

use naga::back::{glsl, msl, spv};
use naga::proc::BoundsCheckPolicies;
use naga::valid::{Capabilities, ValidationFlags, Validator};

use crate::checksum::{Checksum, ProgramResult};

/// A shader with three placeholders: `SIZE` for a number, `STEPS` for copies of [`STEP`], and
/// `CALLS` for calls to these copies.
const SHADER: &str = "
struct Particle { position: vec3<f32>, mass: f32, velocity: vec3<f32>, age: u32 }
struct Settings { gravity: vec3<f32>, time: f32, count: u32, damping: f32 }

@group(0) @binding(0) var<storage, read> before: array<Particle>;
@group(0) @binding(1) var<storage, read_write> after: array<Particle>;
@group(0) @binding(2) var<uniform> settings: Settings;

var<workgroup> near: array<Particle, SIZE>;

fn force(one: Particle, other: Particle) -> vec3<f32> {
    let way = other.position - one.position;
    let square = dot(way, way) + 0.01;
    let inverse = inverseSqrt(square);
    return way * (other.mass * inverse * inverse * inverse);
}

STEPS

@compute @workgroup_size(SIZE)
fn main(@builtin(global_invocation_id) global: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    if (global.x >= settings.count) { return; }
    near[local] = before[global.x];
    workgroupBarrier();
    var own = near[local];
    for (var i: u32 = 0u; i < SIZEu; i = i + 1u) {
        if (i != local) { own.velocity = own.velocity + force(own, near[i]) * settings.time; }
    }
    CALLS
    own.velocity = own.velocity * settings.damping + settings.gravity * settings.time;
    own.position = own.position + own.velocity * settings.time;
    own.age = own.age + 1u;
    after[global.x] = own;
}
";

/// A function of the shader, with `N` in place of a number.
const STEP: &str = "
fn stepN(start: Particle, bias: f32) -> Particle {
    var one = start;
    let turn = mat3x3<f32>(
        vec3<f32>(cos(bias), -sin(bias), 0.0), vec3<f32>(sin(bias), cos(bias), 0.0), vec3<f32>(0.0, 0.0, 1.0));
    switch one.age % 3u {
        case 0u: { one.velocity = turn * one.velocity; }
        case 1u: { one.position = clamp(one.position, vec3<f32>(-N.0), vec3<f32>(N.0)); }
        default: { one.mass = mix(one.mass, max(one.mass, bias), 0.5); }
    }
    var sum = vec4<f32>(one.position, one.mass);
    for (var i: i32 = 0; i < 8; i = i + 1) {
        sum = sum * 0.5 + vec4<f32>(f32(i) * bias, length(one.velocity), fract(sum.x), abs(sum.y));
        if (sum.w > N.5) { break; }
    }
    one.position = one.position + sum.xyz * 0.001;
    return one;
}
";

const SHADERS: usize = 60;
/// The number of copies of [`STEP`] in each shader.
const STEPS: usize = 40;

/// Translates each shader into the three languages. Does not read files of the repository.
pub(crate) fn run(_root: &Path) -> ProgramResult {
    let mut checksum = Checksum::new();
    for shader in 0..SHADERS {
        let source = source(shader);
        let module = naga::front::wgsl::parse_str(&source)?;
        let info = Validator::new(ValidationFlags::all(), Capabilities::empty()).validate(&module)?;
        for word in spv::write_vec(&module, &info, &spv::Options::default(), None)? {
            checksum.number(u64::from(word));
        }
        let (metal, _) =
            msl::write_string(&module, &info, &msl::Options::default(), &msl::PipelineOptions::default())?;
        checksum.bytes(metal.as_bytes());
        checksum.bytes(opengl(&module, &info)?.as_bytes());
    }
    Ok(checksum)
}

fn opengl(module: &naga::Module, info: &naga::valid::ModuleInfo) -> Result<String, glsl::Error> {
    let mut text = String::new();
    let options = glsl::Options::default();
    let entry = glsl::PipelineOptions {
        shader_stage: naga::ShaderStage::Compute,
        entry_point: "main".to_owned(),
        multiview: None,
    };
    let policies = BoundsCheckPolicies::default();
    glsl::Writer::new(&mut text, module, info, &options, &entry, policies)?.write()?;
    Ok(text)
}

fn source(shader: usize) -> String {
    let numbers = 1..=STEPS;
    let steps: String = numbers.clone().map(|n| STEP.replace('N', &n.to_string())).collect();
    let calls: String =
        numbers.map(|n| format!("own = step{n}(own, {n}.25 * settings.time);\n    ")).collect();
    let size = (32 + shader).to_string();
    SHADER.replace("STEPS", &steps).replace("CALLS", &calls).replace("SIZE", &size)
}
