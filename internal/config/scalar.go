package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/abidehq/abide/server/api"
)

// Size is a number of bytes, written with a unit: 64KiB, 1MiB; or without.
type Size int

// String writes it with the largest unit that leaves no rest.
func (s Size) String() string {
	for _, u := range units {
		if s != 0 && s%u.bytes == 0 {
			return fmt.Sprintf("%d%s", s/u.bytes, u.name)
		}
	}
	return strconv.Itoa(int(s))
}

var units = []struct {
	name  string
	bytes Size
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

func parseSize(text string) (Size, error) {
	bytes := Size(1)
	for _, u := range units {
		if number, has := strings.CutSuffix(text, u.name); has {
			text, bytes = strings.TrimSpace(number), u.bytes
			break
		}
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, errors.New("it must be a number of bytes, such as 65536, 64KiB or 1MiB")
	}
	return Size(n) * bytes, nil
}

// forever is how long something is kept that is never removed.
const forever = "forever"

// parseDuration reads a duration; in days, too, since that is how people think of what
// is kept.
func parseDuration(text string) (time.Duration, error) {
	if days, has := strings.CutSuffix(text, "d"); has {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := api.ParseDuration(text)
	if err != nil {
		return 0, errors.New("it must be a duration, such as 90s, 15m, 2h30m, 7d, or a number of seconds")
	}
	return d, nil
}

// scalar decodes one value.
func scalar(text string, tag reflect.StructTag, v reflect.Value) error {
	switch v.Type() {
	case secretType, placeType:
		s, err := readSecret(text)
		if err != nil {
			return err
		}
		if v.Type() == placeType {
			v.Set(reflect.ValueOf(Place{s}))
		} else {
			v.Set(reflect.ValueOf(s))
		}
		return nil
	case durationType:
		return setDuration(text, tag, v)
	case sizeType:
		return setSize(text, tag, v)
	}
	switch v.Kind() {
	case reflect.Bool:
		return setBool(text, v)
	case reflect.Int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return errors.New("it must be a whole number")
		}
		v.SetInt(int64(n))
		return within(n, tag, strconv.Atoi)
	case reflect.Float64:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(n) {
			return errors.New("it must be a number")
		}
		v.SetFloat(n)
		return within(n, tag, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })
	default:
		v.SetString(text)
		return checkText(text, tag)
	}
}

func setBool(text string, v reflect.Value) error {
	switch strings.ToLower(text) {
	case "true", "yes", "on", "1":
		v.SetBool(true)
	case "false", "no", "off", "0":
		v.SetBool(false)
	default:
		return errors.New("allowed are true and false")
	}
	return nil
}

func setDuration(text string, tag reflect.StructTag, v reflect.Value) error {
	if text == forever && tag.Get("forever") != "" {
		v.SetInt(-1)
		return nil
	}
	d, err := parseDuration(text)
	if err != nil {
		return err
	}
	v.SetInt(int64(d))
	err = within(d, tag, parseDuration)
	if err != nil && tag.Get("forever") != "" {
		err = fmt.Errorf("%w, or %s", err, forever)
	}
	return err
}

func setSize(text string, tag reflect.StructTag, v reflect.Value) error {
	n, err := parseSize(text)
	if err != nil {
		return err
	}
	v.SetInt(int64(n))
	return within(n, tag, parseSize)
}

// within checks the bounds that a tag sets.
func within[T int | float64 | time.Duration | Size](n T, tag reflect.StructTag, parse func(string) (T, error)) error {
	low, high := tag.Get("min"), tag.Get("max")
	tooLow, tooHigh := false, false
	if low != "" {
		bound, err := parse(low)
		tooLow = err != nil || n < bound
	}
	if high != "" {
		bound, err := parse(high)
		tooHigh = err != nil || n > bound
	}
	switch {
	case !tooLow && !tooHigh:
		return nil
	case high == "":
		return fmt.Errorf("%s or more is allowed", low)
	case low == "":
		return fmt.Errorf("at most %s is allowed", high)
	default:
		return fmt.Errorf("%s to %s is allowed", low, high)
	}
}

// checkText checks a text against what its tag allows. Empty means that nothing is said.
func checkText(text string, tag reflect.StructTag) error {
	if text == "" {
		return nil
	}
	if allowed := strings.Fields(tag.Get("allowed")); len(allowed) > 0 && !slices.Contains(allowed, text) {
		return fmt.Errorf("allowed are %s", strings.Join(allowed, ", "))
	}
	switch tag.Get("is") {
	case "address or off":
		if text != Off {
			return checkText(text, `is:"address"`)
		}
	case "address":
		_, port, err := net.SplitHostPort(text)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		if err != nil {
			return errors.New("it must be a host and a port, such as 127.0.0.1:7171, [::1]:7171 or :7171")
		}
	case "url":
		if u, err := url.Parse(text); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return errors.New("it must be a URL, such as https://example.com")
		}
	case "network":
		if p, err := netip.ParsePrefix(text); err != nil || p != p.Masked() {
			return errors.New("it must be a network, such as 10.0.0.0/8 or fd00::/8")
		}
	}
	return nil
}
