// Package cron is the arithmetic of recurring times: which moment comes next. It has
// no clock, no goroutine and no I/O, so the same question has the same answer in every
// process and in every test.
//
// A [Rule] is a cron expression in a time zone, an [Interval] is a fixed distance, and
// both are [Times]. What is done at such a moment, what if the one before still runs,
// and what if nobody was there, is decided by the caller.
//
// # Expressions
//
// An expression has five fields, or six with the seconds first:
//
//	second   0 to 59
//	minute   0 to 59
//	hour     0 to 23
//	day      1 to 31, or L, LW, 15W
//	month    1 to 12 or JAN to DEC
//	weekday  0 to 7 or SUN to SAT (0 and 7 are Sunday), or 5L, FRIL, 1#2, MON#2
//
// Each is * (or ?, the same), a value, a range 1-5, a step */15, 10-40/10 or 5/15 (from
// 5 on), or a list of those. Letters may be small or large. A range that ends on Sunday
// may say so in any way: SAT-SUN, 6-7 and 6-0 are the same two days.
//
//	L      the last day of the month
//	LW     the last day of the month from Monday to Friday
//	15W    the day from Monday to Friday that is nearest to the 15th, within the month;
//	       a month without such a day (31W in April) has none
//	FRIL   the last Friday of the month
//	MON#2  the second Monday of the month
//
// If both day and weekday are restricted, a day on which either holds is enough, as in
// crontab since Vixie: "0 0 13 * FRI" is each 13th and each Friday. As there, a field
// with a * in it does not count as restricted, even with a step: "0 0 */2 * MON" is each
// Monday with an odd date.
//
// In place of all fields may stand @yearly, @annually, @monthly, @weekly, @daily,
// @midnight or @hourly.
//
// # Daylight saving
//
// When a zone moves its clock forward there is a gap: local times that no clock shows.
// When it moves it back there is a fold: local times that are shown twice. What happens
// then depends on what the expression asks for.
//
// An expression that names its hours ("30 2 * * *", "*/10 1-3 * * *") is an appointment,
// and [Gap] and [Fold] of its rule say when it is kept. In a gap, all the times that
// fall into it become one, at the first moment after it (with [RunAfter]), or none (with
// [Skip]). In a fold each time comes at its first showing, at its second, or at both.
//
// An expression with a part of its hour field that spans the whole day (*, */2, 0/2,
// 0-23) is a rhythm, and goes on in real time. In a fold it comes at both showings,
// whatever the rule's Fold: else there would be an hour of silence. In a gap, a time
// comes when it would have come had nobody moved the clock, which then shows something
// else: 02:30 comes at 03:30 where a gap of an hour begins at 02:00. For "30 * * * *"
// that is one of its times anyway; for "30 */2 * * *" it keeps three hours from passing
// in silence; and where the clock moves by half an hour, "0 * * * *" has one run at 02:30.
// With [Skip] the times in a gap do not come, here either.
package cron
