//! Counters for exporters: names, values, and a ticker that reports them.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use pageset_host::{Order, PagePool};

#[test]
fn metrics_have_the_names_and_values_of_the_counters() {
    let pool = PagePool::builder(8 << 20).build().expect("a pool");
    let _page = pool.pages(Order::ZERO).expect("memory");
    let stats = pool.stats();
    // Each counter and its value appear in the text of the statistics.
    let text = format!("{stats:?}");
    for (name, value) in stats.metrics() {
        assert!(text.contains(&format!("{name}: {value}")), "{name} is not in {text}");
    }
    assert_eq!(stats.metrics().len(), text.matches(": ").count());
}

#[test]
fn a_ticker_reports_after_each_round() {
    let pool = Arc::new(PagePool::builder(8 << 20).build().expect("a pool"));
    let (send, receive) = channel();
    let report = move |pool: &PagePool| {
        let _ = send.send(pool.stats().metrics()[0]);
    };
    let ticker = pool.start_ticker(Duration::from_millis(1), report).expect("a thread");
    for _ in 0..3 {
        let size = receive.recv_timeout(Duration::from_secs(60)).expect("a report");
        assert_eq!(size, ("size_bytes", pool.stats().size_bytes));
    }
    drop(ticker);
    assert!(receive.iter().count() < 1000, "the ticker has ended");
}
