//! Charts as SVG.

use crate::Outcome;
use plotters::coord::Shift;
use plotters::prelude::*;

const SIZE: (u32, u32) = (720, 300);

/// A line in a chart.
pub(super) type Line = Vec<(f64, f64)>;

fn colour(place: usize) -> RGBColor {
    const COLOURS: [RGBColor; 8] = [
        RGBColor(0, 114, 178),
        RGBColor(213, 94, 0),
        RGBColor(0, 158, 115),
        RGBColor(204, 121, 167),
        RGBColor(230, 159, 0),
        RGBColor(86, 180, 233),
        RGBColor(100, 100, 100),
        RGBColor(120, 90, 40),
    ];
    COLOURS[place % COLOURS.len()]
}

/// A chart with room for its labels.
fn framed<'a, 'b, B: DrawingBackend>(area: &'a DrawingArea<B, Shift>) -> ChartBuilder<'a, 'b, B> {
    let mut chart = ChartBuilder::on(area);
    chart.margin(8).margin_right(28).x_label_area_size(34).y_label_area_size(72);
    chart
}

/// The quantiles on the axis of a latency chart, one step apart, with their labels.
pub(super) const QUANTILES: [&str; 5] = ["half", "90 %", "99 %", "99.9 %", "all"];

/// The latency in milliseconds that a share of operations did not exceed, on a logarithmic scale;
/// the x values of `lines` index [`QUANTILES`].
pub(super) fn latencies(lines: &[Line]) -> Outcome<String> {
    let values = || lines.iter().flatten().map(|point| point.1.max(0.001));
    let (least, most) = values().fold((f64::MAX, 0.002), |(least, most), value| (value.min(least), value.max(most)));
    let name = |place: &f64| {
        let is_whole = (place - place.round()).abs() < 1e-6;
        QUANTILES.get(place.round() as usize).filter(|_| is_whole).copied().unwrap_or_default().to_owned()
    };
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let mut chart = framed(&area)
            .build_cartesian_2d(0.0..(QUANTILES.len() - 1) as f64, (least.min(most / 2.0)..most).log_scale())?;
        let mut mesh = chart.configure_mesh();
        mesh.x_desc("share of operations").y_desc("latency, ms").light_line_style(WHITE).x_labels(QUANTILES.len());
        mesh.x_label_formatter(&name).y_label_formatter(&|value| super::number(*value)).draw()?;
        for (place, line) in lines.iter().enumerate() {
            let points = line.iter().map(|(x, y)| (*x, y.max(0.001)));
            chart.draw_series(LineSeries::new(points, colour(place).stroke_width(2)))?;
        }
        area.present()?;
    }
    Ok(svg)
}

/// Lines over an axis that starts at zero.
pub(super) fn lines(x: &str, y: &str, lines: &[Line]) -> Outcome<String> {
    let points = || lines.iter().flatten();
    let most = |of: &dyn Fn(&(f64, f64)) -> f64| points().map(of).fold(f64::MIN_POSITIVE, f64::max);
    let (most_x, most_y) = (most(&|point| point.0), most(&|point| point.1));
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let mut chart = framed(&area).build_cartesian_2d(0.0..most_x, 0.0..most_y * 1.05)?;
        let mut mesh = chart.configure_mesh();
        mesh.x_desc(x).y_desc(y).light_line_style(WHITE).y_label_formatter(&|value| super::number(*value)).draw()?;
        for (place, line) in lines.iter().enumerate() {
            let style = colour(place).stroke_width(2);
            chart.draw_series(LineSeries::new(line.iter().copied(), style))?;
        }
        area.present()?;
    }
    Ok(svg)
}

/// Horizontal bars, scaled to the longest, with names and figures.
pub(super) fn bars(unit: &str, bars: &[(String, f64)]) -> String {
    let most = bars.iter().map(|(_, value)| *value).fold(f64::MIN_POSITIVE, f64::max);
    let mut html = String::from("<div class=bars>");
    for (place, (name, value)) in bars.iter().enumerate() {
        let RGBColor(red, green, blue) = colour(place);
        html += &format!(
            "<div><span>{name}</span><b style=\"width:{:.1}%;background:rgb({red},{green},{blue})\"></b>\
             <span>{} {unit}</span></div>",
            (value / most * 55.0).max(0.3),
            super::number(*value)
        );
    }
    html + "</div>"
}

/// The legend: which colour is which line.
pub(super) fn legend(names: &[String]) -> String {
    let mut html = String::from("<p class=legend>");
    for (place, name) in names.iter().enumerate() {
        let RGBColor(red, green, blue) = colour(place);
        html += &format!("<span><i style=\"background:rgb({red},{green},{blue})\"></i>{name}</span> ");
    }
    html + "</p>"
}
