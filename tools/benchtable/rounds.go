package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// parse reads what 'go test -bench' printed: every metric of every round, by benchmark and unit.
func parse(in io.Reader) (map[string][]float64, error) {
	all := map[string][]float64{}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 4 || !strings.HasPrefix(words[0], "Benchmark") {
			continue
		}
		if _, err := strconv.Atoi(words[1]); err != nil {
			continue
		}
		name := strings.TrimPrefix(words[0], "Benchmark")
		if i := strings.LastIndex(name, "-"); i >= 0 && digits(name[i+1:]) { // how many processors
			name = name[:i]
		}
		for i := 2; i+1 < len(words); i += 2 {
			v, err := strconv.ParseFloat(words[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", lines.Text(), err)
			}
			key := name + " " + words[i+1]
			all[key] = append(all[key], v)
		}
	}
	return all, lines.Err()
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

func bounds(v []float64) (low, high float64) { return slices.Min(v), slices.Max(v) }

// number prints three digits that count.
func number(v float64) string {
	if v == 0 || math.Abs(v) >= 100 {
		return strconv.FormatFloat(math.Round(v), 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// noise is how much a median may differ although nothing changed: rounds of one run differ less, machines more.
const noise = 0.1

// check names the figures whose rounds are all worse than all of the run before, by more than noise.
func check(before, after bench, out io.Writer) error {
	was := map[string]figure{}
	for _, f := range before.Figures {
		was[f.Metric] = f
	}
	slower, compared := 0, 0
	for _, now := range after.Figures {
		then, ok := was[now.Metric]
		i := slices.IndexFunc(holds, func(h hold) bool { return h.benchmark+" "+h.unit == now.Metric })
		if !ok || i < 0 || len(then.Rounds) == 0 || len(now.Rounds) == 0 {
			continue
		}
		compared++
		worse := now.Median / then.Median
		lowNow, highNow := bounds(now.Rounds)
		lowThen, highThen := bounds(then.Rounds)
		apart := lowNow > highThen
		if holds[i].least {
			worse, apart = then.Median/now.Median, highNow < lowThen
		}
		if apart && worse > 1+noise {
			slower++
			fmt.Fprintf(out, "slower: %s: %s, was %s (%.2f × worse)\n", now.What, number(now.Median), number(then.Median), worse)
		}
	}
	if compared == 0 {
		return fmt.Errorf("the two runs have no figure in common")
	}
	fmt.Fprintf(out, "%d figures compared, %d slower than noise; load %s then, %s now\n", compared, slower, before.Load, after.Load)
	if slower > 0 {
		return fmt.Errorf("%d figures got slower", slower)
	}
	return nil
}
