//! A hundred readers of the metrics hold up nobody, and the page does not grow with them.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::{service::Service, until};

const READERS: usize = 100;
const SCRAPES: usize = 5;

#[test]
fn a_hundred_scrapers_at_once_hold_up_no_save() {
    let service = Service::start();
    service.product("1", json!({"name": "Stool"}));
    let save = || {
        let body = json!({"add": {"stock": 1}});
        service.post("any", "/v1/entities/Product/1/save", body)
    };
    assert_eq!(save().status, 200);
    let names = |page: &str| page.lines().filter(|line| line.starts_with("# TYPE")).count();
    let before = names(service.get("boss", "/metrics").body.as_str().unwrap());
    let (scraped, turned_away) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let all = READERS * SCRAPES;

    let saves = std::thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                for _ in 0..SCRAPES {
                    let answer = service.get("boss", "/metrics");
                    match answer.status {
                        200 => scraped.fetch_add(1, Ordering::Relaxed),
                        // One writer may not have all the requests, scraping or not.
                        429 => turned_away.fetch_add(1, Ordering::Relaxed),
                        _ => panic!("{answer:?}"),
                    };
                }
            });
        }
        let done = || scraped.load(Ordering::Relaxed) + turned_away.load(Ordering::Relaxed);
        until("the scrapers have begun", || done() > 0);
        let mut saves = 1;
        loop {
            assert_eq!(save().status, 200);
            saves += 1;
            if done() == all {
                break saves;
            }
        }
    });

    assert!(scraped.load(Ordering::Relaxed) >= all / 5, "{turned_away:?} were turned away");
    let page = service.get("boss", "/metrics");
    assert_eq!(names(page.body.as_str().unwrap()), before);
    assert_eq!(service.get("any", "/v1/entities/Product/1").body["fields"]["stock"], saves);
    assert!(!service.log().contains("panicked"));
}
