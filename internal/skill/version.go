package skill

import (
	"cmp"
	"strconv"
	"strings"

	"palyra/internal/pattern"
)

// versionForm is MAJOR.MINOR.PATCH, or that with -PRERELEASE.
var versionForm = pattern.Later(`^(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})(-[0-9a-z]+(\.[0-9a-z]+){0,3})?$`)

// ValidVersion reports whether a text is a version.
func ValidVersion(v string) bool { return len(v) <= 64 && versionForm().MatchString(v) }

// CompareVersions orders valid versions; a prerelease comes before what it leads to.
func CompareVersions(a, b string) int {
	coreA, preA, _ := strings.Cut(a, "-")
	coreB, preB, _ := strings.Cut(b, "-")
	if c := compareParts(strings.Split(coreA, "."), strings.Split(coreB, ".")); c != 0 {
		return c
	}
	switch {
	case preA == preB:
		return 0
	case preA == "":
		return 1
	case preB == "":
		return -1
	}
	return compareParts(strings.Split(preA, "."), strings.Split(preB, "."))
}

// compareParts orders numbers as numbers, and before words.
func compareParts(a, b []string) int {
	for i := range min(len(a), len(b)) {
		na, errA := strconv.ParseUint(a[i], 10, 64)
		nb, errB := strconv.ParseUint(b[i], 10, 64)
		c := 0
		switch {
		case errA == nil && errB == nil:
			c = cmp.Compare(na, nb)
		case errA == nil:
			c = -1
		case errB == nil:
			c = 1
		default:
			c = cmp.Compare(a[i], b[i])
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}
