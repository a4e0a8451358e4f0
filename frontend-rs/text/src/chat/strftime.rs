//! `strftime_now` for templates: the current time in UTC, in the C locale.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Seconds since 1970-01-01 00:00 UTC.
pub(super) fn now_unix_s() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(0)
}

/// A moment taken apart.
struct Moment {
    year: i64,
    /// From 1.
    month: usize,
    /// From 1.
    day: i64,
    /// From 1.
    day_of_year: i64,
    /// From 0, Sunday.
    weekday: usize,
    hour: i64,
    minute: i64,
    second: i64,
}

/// Days from 1970-01-01 to the first of January of `year`.
fn days_before_year(year: i64) -> i64 {
    let past = year - 1;
    past * 365 + past.div_euclid(4) - past.div_euclid(100) + past.div_euclid(400) - 719_162
}

fn moment(unix_s: i64) -> Moment {
    let (days, second_of_day) = (unix_s.div_euclid(86_400), unix_s.rem_euclid(86_400));
    let mut year = 1970 + days.div_euclid(366);
    while days_before_year(year + 1) <= days {
        year += 1;
    }
    let is_leap = days_before_year(year + 1) - days_before_year(year) == 366;
    let day_of_year = days - days_before_year(year);
    let lengths = [
        31,
        28 + i64::from(is_leap),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let (mut month, mut day) = (0, day_of_year);
    while month < 11 && day >= lengths[month] {
        day -= lengths[month];
        month += 1;
    }
    Moment {
        year,
        month: month + 1,
        day: day + 1,
        day_of_year: day_of_year + 1,
        weekday: usize::try_from((days + 4).rem_euclid(7)).unwrap_or(0),
        hour: second_of_day / 3600,
        minute: second_of_day / 60 % 60,
        second: second_of_day % 60,
    }
}

/// Formats a moment as Python's `strftime` does; an unknown directive is kept as written.
pub(super) fn strftime(format: &str, unix_s: i64) -> String {
    let at = moment(unix_s);
    let mut text = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        let mut directive = chars.next();
        let unpadded = directive == Some('-');
        if unpadded {
            directive = chars.next();
        }
        write_directive(&mut text, &at, directive, unpadded, unix_s);
    }
    text
}

fn write_directive(text: &mut String, at: &Moment, directive: Option<char>, unpadded: bool, unix_s: i64) {
    let hour12 = (at.hour + 11) % 12 + 1;
    let month = MONTHS[at.month - 1];
    let number = match directive {
        Some('d') => Some((at.day, 2)),
        Some('m') => Some((at.month as i64, 2)),
        Some('y') => Some((at.year.rem_euclid(100), 2)),
        Some('H') => Some((at.hour, 2)),
        Some('I') => Some((hour12, 2)),
        Some('M') => Some((at.minute, 2)),
        Some('S') => Some((at.second, 2)),
        Some('f') => Some((0, 6)),
        Some('j') => Some((at.day_of_year, 3)),
        _ => None,
    };
    // Writing to a string cannot fail.
    if directive == Some('e') {
        let _ = write!(text, "{:>2}", at.day);
        return;
    }
    if let Some((value, width)) = number {
        let width = if unpadded { 0 } else { width };
        let _ = write!(text, "{value:0width$}");
        return;
    }
    match directive {
        Some('Y') => text.push_str(&at.year.to_string()),
        Some('B') => text.push_str(month),
        Some('b' | 'h') => text.push_str(&month[..3]),
        Some('A') => text.push_str(DAYS[at.weekday]),
        Some('a') => text.push_str(&DAYS[at.weekday][..3]),
        Some('p') => text.push_str(if at.hour < 12 { "AM" } else { "PM" }),
        Some('u') => text.push_str(&(if at.weekday == 0 { 7 } else { at.weekday }).to_string()),
        Some('w') => text.push_str(&at.weekday.to_string()),
        Some('F') => text.push_str(&strftime("%Y-%m-%d", unix_s)),
        Some('T' | 'X') => text.push_str(&strftime("%H:%M:%S", unix_s)),
        Some('D' | 'x') => text.push_str(&strftime("%m/%d/%y", unix_s)),
        Some('R') => text.push_str(&strftime("%H:%M", unix_s)),
        Some('c') => text.push_str(&strftime("%a %b %e %H:%M:%S %Y", unix_s)),
        Some('s') => text.push_str(&unix_s.to_string()),
        // A naive Python datetime has no zone.
        Some('z' | 'Z') => {}
        Some('n') => text.push('\n'),
        Some('t') => text.push('\t'),
        Some('%') | None => text.push('%'),
        Some(other) => text.extend(['%', other]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments() {
        assert_eq!(strftime("%F %T %A %j", 0), "1970-01-01 00:00:00 Thursday 001");
        assert_eq!(strftime("%d %b %Y", 951_782_400), "29 Feb 2000");
        assert_eq!(strftime("%-d/%-m/%y %I%p %%", 1_735_689_599), "31/12/24 11PM %");
        assert_eq!(
            strftime("%a %e %B %Y, %H:%M", 4_102_444_800),
            "Fri  1 January 2100, 00:00"
        );
    }
}
