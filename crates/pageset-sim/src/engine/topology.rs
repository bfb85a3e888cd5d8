//! The numbering of CPUs, cores and sockets.

/// The number of a core of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Core(pub u32);

/// The number of a socket in the model, which is a memory node. A real socket that is divided into several nodes, such as
/// sub-NUMA clusters, is several of these.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Socket(pub u32);

/// The numbers of sockets, cores and threads. CPUs are numbered as Linux does on these machines: first one thread of
/// each core, socket by socket, then the second threads in the same order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Topology {
    /// Sockets; each socket is a memory node.
    pub sockets: u32,
    /// Cores per socket.
    pub cores_per_socket: u32,
    /// Threads per core; each thread is a CPU.
    pub threads_per_core: u32,
    /// Nodes of one package: lines between them are nearer than lines of another package. 1 for undivided packages.
    pub nodes_per_package: u32,
    /// Last-level caches of a node, each shared by equally many of its cores.
    pub last_levels_per_node: u32,
}

impl Topology {
    /// Number of cores of the machine.
    pub const fn cores(self) -> u32 {
        self.sockets * self.cores_per_socket
    }

    /// Number of CPUs of the machine.
    pub const fn cpus(self) -> u32 {
        self.cores() * self.threads_per_core
    }

    /// The core of a CPU.
    pub const fn core_of(self, cpu: u32) -> Core {
        Core(cpu % self.cores())
    }

    /// The socket of a core.
    #[inline]
    pub const fn socket_of(self, core: Core) -> Socket {
        Socket(core.0 / self.cores_per_socket)
    }

    /// The package of a node.
    #[inline]
    pub const fn package_of(self, node: Socket) -> u32 {
        node.0 / self.nodes_per_package
    }

    /// Cores that share a last-level cache.
    pub const fn cores_per_last_level(self) -> u32 {
        self.cores_per_socket / self.last_levels_per_node
    }

    /// The number of the last-level cache of a core.
    #[inline]
    pub const fn last_level_of(self, core: Core) -> u32 {
        core.0 / self.cores_per_last_level()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_threads_come_last() {
        let topology = Topology {
            sockets: 2,
            cores_per_socket: 3,
            threads_per_core: 2,
            nodes_per_package: 1,
            last_levels_per_node: 1,
        };
        assert_eq!((topology.cores(), topology.cpus()), (6, 12));
        let socket = |cpu| topology.socket_of(topology.core_of(cpu)).0;
        assert_eq!((0..12).map(socket).collect::<Vec<_>>(), [0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1]);
        assert_eq!(topology.core_of(2), topology.core_of(8));
    }

    #[test]
    fn nodes_form_packages_and_cores_share_last_levels() {
        let topology = Topology {
            sockets: 4,
            cores_per_socket: 6,
            threads_per_core: 1,
            nodes_per_package: 2,
            last_levels_per_node: 3,
        };
        assert_eq!([0, 1, 2, 3].map(|node| topology.package_of(Socket(node))), [0, 0, 1, 1]);
        assert_eq!([0, 1, 2, 5, 6, 23].map(|core| topology.last_level_of(Core(core))), [0, 0, 1, 2, 3, 11]);
    }
}
