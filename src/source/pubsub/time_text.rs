//! Event times as text: decimal epoch milliseconds, or RFC 3339.

use crate::model::Timestamp;

/// Reads an event time from an attribute: a decimal integer is epoch milliseconds, anything else
/// must be RFC 3339. Digits below the millisecond are dropped, times outside Beam's bounds clamped.
///
/// ```
/// use tidemill::source::pubsub::time_text::parse_event_time;
/// assert_eq!(parse_event_time(b"1500"), parse_event_time(b"1970-01-01T00:00:01.5Z"));
/// ```
pub fn parse_event_time(text: &[u8]) -> Option<Timestamp> {
    parse_millis(text)
        .or_else(|| parse_rfc3339(text))
        .map(Timestamp::from_millis)
}

/// An RFC 3339 time as epoch milliseconds. A leap second counts as the second after it.
pub fn parse_rfc3339(text: &[u8]) -> Option<i64> {
    let [
        y1,
        y2,
        y3,
        y4,
        b'-',
        m1,
        m2,
        b'-',
        d1,
        d2,
        b'T' | b't' | b' ',
        h1,
        h2,
        b':',
        n1,
        n2,
        b':',
        s1,
        s2,
        rest @ ..,
    ] = text
    else {
        return None;
    };
    let year = number(&[*y1, *y2, *y3, *y4])?;
    let month = number(&[*m1, *m2])?;
    let day = number(&[*d1, *d2])?;
    let hour = number(&[*h1, *h2])?;
    let minute = number(&[*n1, *n2])?;
    let second = number(&[*s1, *s2])?;
    let in_range = (1..=12).contains(&month)
        && (1..=days_in_month(year, month)).contains(&day)
        && hour <= 23
        && minute <= 59
        && second <= 60;
    if !in_range {
        return None;
    }
    let (fraction_millis, zone) = parse_fraction(rest)?;
    let seconds = days_from_civil(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second
        - parse_offset_seconds(zone)?;
    Some(seconds * 1_000 + fraction_millis)
}

fn parse_millis(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let clamped = if text.len() == digits.len() {
        i64::MAX
    } else {
        i64::MIN
    };
    let text = std::str::from_utf8(text).ok()?;
    Some(text.parse().unwrap_or(clamped))
}

/// The milliseconds of an optional fraction, and what follows it.
fn parse_fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    let Some(digits) = text.strip_prefix(b".") else {
        return Some((0, text));
    };
    let len = digits.iter().take_while(|b| b.is_ascii_digit()).count();
    let (fraction, rest) = digits.split_at_checked(len)?;
    if fraction.is_empty() {
        return None;
    }
    let padded = fraction.iter().copied().chain(std::iter::repeat(b'0'));
    let millis = padded
        .take(3)
        .fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
    Some((millis, rest))
}

fn parse_offset_seconds(text: &[u8]) -> Option<i64> {
    let (sign, hours, minutes) = match text {
        [b'Z' | b'z'] => return Some(0),
        [b'+', h1, h2, b':', m1, m2] => (1, [*h1, *h2], [*m1, *m2]),
        [b'-', h1, h2, b':', m1, m2] => (-1, [*h1, *h2], [*m1, *m2]),
        _ => return None,
    };
    let (hours, minutes) = (number(&hours)?, number(&minutes)?);
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 3_600 + minutes * 60))
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |sum, digit| {
        digit
            .is_ascii_digit()
            .then(|| sum * 10 + i64::from(digit - b'0'))
    })
}

const fn is_leap_year(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

const fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap_year(year) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days since the Unix epoch of a day in the proleptic Gregorian calendar. Years are counted from
/// March, so that the leap day is a year's last.
const fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year_from_march = if month > 2 { year } else { year - 1 };
    let era = year_from_march.div_euclid(400);
    let year_of_era = year_from_march.rem_euclid(400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_event_times() {
        let max = Timestamp::MAX.millis();
        for (text, millis) in [
            ("0", Some(0)),
            ("1500", Some(1_500)),
            ("-1", Some(-1)),
            ("99999999999999999999999999", Some(max)),
            ("-99999999999999999999999999", Some(Timestamp::MIN.millis())),
            ("1970-01-01T00:00:00Z", Some(0)),
            ("1970-01-01t00:00:00z", Some(0)),
            ("1970-01-01 00:00:00Z", Some(0)),
            ("2026-11-30T12:34:56.789Z", Some(1_796_042_096_789)),
            ("2026-11-30T12:34:56.7Z", Some(1_796_042_096_700)),
            ("2026-11-30T12:34:56.789999999Z", Some(1_796_042_096_789)),
            ("2026-11-30T14:34:56.789+02:00", Some(1_796_042_096_789)),
            ("2026-11-30T07:04:56.789-05:30", Some(1_796_042_096_789)),
            ("2000-02-29T00:00:00Z", Some(951_782_400_000)),
            ("2016-12-31T23:59:60Z", Some(1_483_228_800_000)),
            ("1969-12-31T23:59:59.999Z", Some(-1)),
            ("0001-01-01T00:00:00Z", Some(-62_135_596_800_000)),
            ("9999-12-31T23:59:59Z", Some(253_402_300_799_000)),
            ("1900-02-29T00:00:00Z", None),
            ("2026-13-01T00:00:00Z", None),
            ("2026-00-01T00:00:00Z", None),
            ("2026-04-31T00:00:00Z", None),
            ("2026-01-01T24:00:00Z", None),
            ("2026-01-01T00:00:00", None),
            ("2026-01-01T00:00:00.Z", None),
            ("2026-01-01T00:00:00+0200", None),
            ("2026-01-01T00:00:00+24:00", None),
            ("2026-01-01", None),
            ("1.5", None),
            ("", None),
            ("-", None),
            ("soon", None),
            ("2026-01-01T00:00:0\u{e9}", None),
        ] {
            let parsed = parse_event_time(text.as_bytes()).map(Timestamp::millis);
            assert_eq!(parsed, millis, "{text:?}");
        }
    }

    #[test]
    fn counts_every_day() {
        let mut expected = days_from_civil(1899, 12, 31);
        for year in 1900..2101 {
            for month in 1..=12 {
                for day in 1..=days_in_month(year, month) {
                    expected += 1;
                    assert_eq!(days_from_civil(year, month, day), expected);
                }
            }
        }
    }
}
