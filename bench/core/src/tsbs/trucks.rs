//! TSBS' queries of trucks.

use crate::table::{Column, ColumnType};

/// Seconds of the buckets in which a truck drives, is active or is broken.
pub const BUCKET_S: i64 = 600;
/// Seconds of a day.
pub const DAY_S: i64 = 86_400;
/// The number of buckets in an hour.
pub const BUCKETS_AN_HOUR: i64 = 3_600 / BUCKET_S;
/// The number of buckets in a day.
pub const BUCKETS_A_DAY: i64 = DAY_S / BUCKET_S;

/// A query of trucks. The answers are in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TruckQuestion {
    /// last-loc: the newest location of each truck of a fleet.
    LastLocations {
        /// The fleet.
        fleet: &'static str,
    },
    /// single-last-loc: the newest location of a truck.
    LastLocation {
        /// The truck.
        truck: String,
    },
    /// low-fuel: the trucks of a fleet with less than a tenth of their fuel.
    LowFuel {
        /// The fleet.
        fleet: &'static str,
    },
    /// high-load: the trucks of a fleet with more than nine tenths of the load they can take.
    HighLoad {
        /// The fleet.
        fleet: &'static str,
    },
    /// stationary-trucks: the trucks of a fleet whose average velocity is below 1.
    Stationary {
        /// The fleet.
        fleet: &'static str,
        /// The window.
        window_ns: (i64, i64),
    },
    /// long-driving-sessions and long-daily-sessions: the trucks of a fleet that drove in more than
    /// a number of buckets.
    LongSessions {
        /// The fleet.
        fleet: &'static str,
        /// The window.
        window_ns: (i64, i64),
        /// The number of buckets.
        more_than: usize,
    },
    /// avg-vs-projected-fuel-consumption: for each fleet, its average consumption while it drives,
    /// and the nominal one.
    Consumption,
    /// avg-daily-driving-duration: for each truck, its average hours of driving on the days on which
    /// it drives.
    DailyDuration,
    /// avg-daily-driving-session: for each truck and day, the average nanoseconds from the first
    /// bucket with an average velocity above 5 to the next bucket without.
    DailySession,
    /// avg-load: for each fleet and model, the average share of the load that a truck can take.
    Load,
    /// daily-activity: for each fleet, model and day, the active buckets as a share of a truck's day.
    DailyActivity,
    /// breakdown-frequency: for each model, how often a truck breaks down.
    Breakdowns,
}

impl TruckQuestion {
    /// The columns of the answer.
    pub fn columns(&self) -> Vec<Column> {
        use ColumnType::{Float, Int, Text, Time};
        let truck = [("name", Text), ("driver", Text)];
        let further: &[Column] = match self {
            Self::LastLocations { .. } | Self::LastLocation { .. } => {
                &[("latitude", Float), ("longitude", Float), ("ts", Time)]
            }
            Self::LowFuel { .. } => &[("fuel_state", Float)],
            Self::HighLoad { .. } => &[("current_load", Float)],
            Self::Stationary { .. } | Self::LongSessions { .. } => &[],
            Self::Consumption => return vec![("fleet", Text), ("consumption", Float), ("nominal", Float)],
            Self::DailyDuration => return vec![("fleet", Text), ("name", Text), ("driver", Text), ("hours", Float)],
            Self::DailySession => return vec![("name", Text), ("day", Time), ("session", Float)],
            Self::Load => {
                return vec![("fleet", Text), ("model", Text), ("load_capacity", Float), ("share", Float)];
            }
            Self::DailyActivity => return vec![("fleet", Text), ("model", Text), ("day", Time), ("share", Float)],
            Self::Breakdowns => return vec![("model", Text), ("breakdowns", Int)],
        };
        truck.into_iter().chain(further.iter().copied()).collect()
    }
}
