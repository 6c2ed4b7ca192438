use super::*;

#[test]
fn heavy_work_leaves_half_of_the_turns_to_light_work() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (running, waiting) = (Gauge::default(), Gauge::default());
        let work = Arc::new(JobLimiter::new(4, 8, running.clone(), waiting.clone()));
        let heavy = [work.acquire(Weight::Heavy).await.unwrap(), work.acquire(Weight::Heavy).await.unwrap()];
        let others: Vec<_> = (0..8)
            .map(|_| {
                let work = Arc::clone(&work);
                tokio::spawn(async move { work.acquire(Weight::Heavy).await.map(drop) })
            })
            .collect();
        while waiting.get() < 8 {
            tokio::task::yield_now().await;
        }
        let light = [work.acquire(Weight::Light).await.unwrap(), work.acquire(Weight::Light).await.unwrap()];
        assert_eq!(running.get(), 4);
        assert!(work.acquire(Weight::Light).await.is_err(), "too many wait");
        drop((heavy, light));
        for other in others {
            other.await.unwrap().unwrap();
        }
        assert_eq!((running.get(), waiting.get()), (0, 0));
    });
}
