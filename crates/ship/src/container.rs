//! The container of a process, from its control groups.

/// The id in the text of `/proc/PID/cgroup`: 64 hexadecimal digits in the last part of a group's path, as Docker, containerd, CRI-O and Podman write them. The last one
/// counts, since containers may be nested.
pub fn container_id(groups: &[u8]) -> Option<String> {
    const DIGITS: usize = 64;
    let text = String::from_utf8_lossy(groups);
    let in_part = |part: &str| {
        // `docker-ID.scope`, `cri-containerd-ID.scope`, `crio-ID`, or the id alone.
        let part = part.strip_suffix(".scope").unwrap_or(part);
        let id = part.rsplit(['-', ':']).next().unwrap_or(part);
        (id.len() == DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| id.to_owned())
    };
    let of_line = |line: &str| line.splitn(3, ':').nth(2)?.rsplit('/').find_map(in_part);
    text.lines().find_map(of_line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_the_usual_runtimes_are_found() {
        let id = "0123456789abcdef".repeat(4);
        for group in [
            format!("0::/system.slice/docker-{id}.scope"),
            format!("0::/kubepods.slice/kubepods-burstable.slice/kubepods-pod7_2.slice/cri-containerd-{id}.scope"),
            format!("12:memory:/kubepods/besteffort/pod1-2-3/{id}\n0::/"),
            format!("0::/machine.slice/libpod-{id}.scope/container"),
            format!("0::/kubepods/crio-{id}"),
            format!("0::/system.slice/containerd.service/kubepods-pod1.slice:cri-containerd:{id}"),
        ] {
            assert_eq!(container_id(group.as_bytes()).as_deref(), Some(id.as_str()), "{group}");
        }
        for group in ["0::/user.slice/user-1000.slice", "", "0::/x-0123456789abcdef", "nonsense", "0::"] {
            assert_eq!(container_id(group.as_bytes()), None, "{group}");
        }
    }
}
