package screen

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// SizeFlag is a number of bytes on the command line: 4096, 64K, 512M, 2GiB. The units are powers of 1024.
type SizeFlag int64

// ParseSize reads a size as people write it. It must be above 0.
func ParseSize(s string) (int64, error) {
	digits := strings.TrimRight(s, "KMGTkmgtiIBb")
	n, err := strconv.ParseInt(digits, 10, 64)
	times := unitOf(strings.ToUpper(s[len(digits):]))
	if err != nil || times == 0 || n <= 0 || strings.HasPrefix(digits, "+") || n > math.MaxInt64/times {
		return 0, fmt.Errorf("%q is not a size like 64K, 512M or 2G", s)
	}
	return n * times, nil
}

// unitOf is how many bytes a unit has; 0 for an unknown unit.
func unitOf(unit string) int64 {
	if unit == "" || unit == "B" {
		return 1
	}
	power := strings.Index("KMGT", unit[:1]) + 1
	if tail := unit[1:]; power == 0 || tail != "" && tail != "B" && tail != "IB" {
		return 0
	}
	return 1 << (10 * power)
}

// String implements pflag.Value.
func (f *SizeFlag) String() string {
	if *f == 0 {
		return ""
	}
	return strconv.FormatInt(int64(*f), 10)
}

// Set implements pflag.Value.
func (f *SizeFlag) Set(s string) error {
	n, err := ParseSize(s)
	*f = SizeFlag(n)
	return err
}

// Type implements pflag.Value.
func (*SizeFlag) Type() string { return "size" }
