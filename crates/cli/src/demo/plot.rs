//! Draws one meter's month as an SVG image.

use chrono::{TimeZone, Utc};
use chrono_tz::Tz;
use fleetdb_engine::{Error, Result};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::path::Path;

/// Every fifth local midnight from the first day on, with its label.
fn midnights(first: i64, last: i64, tz: Tz) -> Vec<(i64, String)> {
    let start = Utc.timestamp_nanos(first).with_timezone(&tz).date_naive();
    let days = (0..).step_by(5).map_while(|days| start.checked_add_days(chrono::Days::new(days)));
    let midnight = |day: chrono::NaiveDate| {
        let local = tz.from_local_datetime(&day.and_time(chrono::NaiveTime::MIN)).earliest()?;
        Some((local.timestamp_nanos_opt()?, day.format("%-d %b").to_string()))
    };
    days.filter_map(midnight).skip_while(|(time, _)| *time < first).take_while(|(time, _)| *time <= last).collect()
}

/// Draws points of (time in nanoseconds, kWh), with labels in local time.
pub fn draw(points: &[(i64, f64)], tz: Tz, path: &Path) -> Result<()> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return Err(Error::invalid("meter 1 has no readings in the month"));
    };
    let most = points.iter().map(|point| point.1).fold(0.0, f64::max);
    let failed = |e: &dyn std::fmt::Display| Error::invalid(format!("could not draw {}: {e}", path.display()));
    let area = SVGBackend::new(path, (960, 320)).into_drawing_area();
    area.fill(&WHITE).map_err(|e| failed(&e))?;
    let mut chart = ChartBuilder::on(&area)
        .caption("Meter 1, hourly usage in kWh", ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(32)
        .y_label_area_size(48)
        .build_cartesian_2d(first.0..last.0, 0.0..most * 1.05)
        .map_err(|e| failed(&e))?;
    // Days are marked by hand, because the axis would put its marks at round numbers of
    // nanoseconds.
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(0)
        .y_label_formatter(&|kwh| format!("{kwh:.1}"))
        .light_line_style(WHITE)
        .draw()
        .map_err(|e| failed(&e))?;
    let label = TextStyle::from(("sans-serif", 12).into_font()).pos(Pos::new(HPos::Center, VPos::Top));
    for (midnight, day) in midnights(first.0, last.0, tz) {
        let line = [(midnight, 0.0), (midnight, most * 1.05)];
        chart.draw_series(LineSeries::new(line, &RGBColor(210, 210, 210))).map_err(|e| failed(&e))?;
        let (x, y) = chart.backend_coord(&(midnight, 0.0));
        area.draw(&Text::new(day, (x, y + 6), label.clone())).map_err(|e| failed(&e))?;
    }
    chart.draw_series(LineSeries::new(points.iter().copied(), &RGBColor(30, 100, 180))).map_err(|e| failed(&e))?;
    area.present().map_err(|e| failed(&e))
}
