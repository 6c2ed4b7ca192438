//! One meter's month as an SVG picture.

use chrono::{DateTime, TimeZone, Utc};
use chrono_tz::Tz;
use fleetdb_engine::{Error, Result};
use plotters::prelude::*;
use std::path::Path;

/// Draws (time in nanoseconds, kWh) points, labelled in local time.
pub fn draw(points: &[(i64, f64)], tz: Tz, path: &Path) -> Result<()> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return Err(Error::input("meter 1 has no readings in the month"));
    };
    let most = points.iter().map(|point| point.1).fold(0.0, f64::max);
    let failed = |e: &dyn std::fmt::Display| Error::input(format!("draw {}: {e}", path.display()));
    let area = SVGBackend::new(path, (960, 320)).into_drawing_area();
    area.fill(&WHITE).map_err(|e| failed(&e))?;
    let mut chart = ChartBuilder::on(&area)
        .caption("Meter 1, hourly usage in kWh", ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(32)
        .y_label_area_size(48)
        .build_cartesian_2d(first.0..last.0, 0.0..most * 1.05)
        .map_err(|e| failed(&e))?;
    let local = |time: &i64| {
        let instant: DateTime<Utc> = Utc.timestamp_nanos(*time);
        instant.with_timezone(&tz).format("%d %b %H:%M").to_string()
    };
    chart
        .configure_mesh()
        .x_labels(8)
        .x_label_formatter(&local)
        .y_label_formatter(&|kwh| format!("{kwh:.1}"))
        .light_line_style(WHITE)
        .draw()
        .map_err(|e| failed(&e))?;
    chart.draw_series(LineSeries::new(points.iter().copied(), &RGBColor(30, 100, 180))).map_err(|e| failed(&e))?;
    area.present().map_err(|e| failed(&e))
}
