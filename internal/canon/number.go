package canon

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	maxNumberText = 64  // longest number text accepted
	maxExponent   = 999 // largest decimal exponent, either sign
	plainDigits   = 21  // integers up to this many digits are written plainly
)

// normal rewrites a JSON number as its one decimal form: a plain integer where that takes at most plainDigits
// digits, else <digits>e<exponent> with no trailing zero in the digits. It is exact: no float is involved, so that
// two numbers a float cannot tell apart keep different digests.
func normal(s string) (string, error) {
	if len(s) == 0 || len(s) > maxNumberText {
		return "", fmt.Errorf("%w of %d characters", ErrNumber, len(s))
	}
	if isNormalNumber(s) {
		return s, nil
	}
	digits, neg := strings.CutPrefix(s, "-")
	exp := 0
	if i := strings.IndexAny(digits, "eE"); i >= 0 {
		n, err := strconv.Atoi(digits[i+1:])
		if err != nil || n > maxExponent || n < -maxExponent {
			return "", fmt.Errorf("%w in %q", ErrRange, s)
		}
		exp, digits = n, digits[:i]
	}
	if whole, frac, ok := strings.Cut(digits, "."); ok {
		digits = whole + frac
		exp -= len(frac)
	}
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return "", fmt.Errorf("%w %q", ErrNumber, s)
	}
	digits = strings.TrimLeft(digits, "0")
	if digits == "" {
		return "0", nil
	}
	short := strings.TrimRight(digits, "0")
	exp += len(digits) - len(short)
	return written(neg, short, exp), nil
}

// isNormalNumber reports whether a number is written as normal writes it: most are.
func isNormalNumber(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	if digits == "" || len(digits) > plainDigits || digits[0] == '0' && s != "0" {
		return false
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return false
		}
	}
	return true
}

func written(neg bool, digits string, exp int) string {
	sign := ""
	if neg {
		sign = "-"
	}
	if exp >= 0 && len(digits)+exp <= plainDigits {
		return sign + digits + strings.Repeat("0", exp)
	}
	return sign + digits + "e" + strconv.Itoa(exp)
}
