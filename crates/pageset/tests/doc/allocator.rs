// What the examples in the documentation start with: one zone of 64 MiB, and two CPUs.

use std::mem::MaybeUninit;

use pageset::*;

struct Kernel;

impl Machine for Kernel {
    type Lock = SpinLock;

    fn cpu(&self) -> CpuId {
        CpuId(0)
    }
}

const ZONE: PageRange = PageRange::new(Pfn(0x1_0000), 1 << 14);
const MOVABLE: Request = Request::new(Order::ZERO, MigrateType::Movable);

fn allocator() -> Allocator<'static, Kernel> {
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ZONE, ranges: &[ZONE] }];
    let config = Config::new(&zones, &[NodeId(0); 2]);
    let bytes = config.metadata_bytes::<Kernel>().expect("a valid map");
    let memory = Box::leak(vec![MaybeUninit::uninit(); bytes].into_boxed_slice());
    Allocator::from_bytes(Kernel, &config, memory).expect("enough memory")
}
