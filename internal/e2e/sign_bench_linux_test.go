package e2e

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// signLoop commits with signatures by Palyra's key and by one of the room's own, one after the other, and prints how long each took.
const signLoop = `ssh-keygen -q -t ed25519 -N "" -f $TMPDIR/own
for i in $(seq $1); do
	a=$(date +%s%N); git commit -q --allow-empty -S -m "lent $i" || exit 1
	b=$(date +%s%N); git -c gpg.ssh.program=ssh-keygen -c user.signingkey=$TMPDIR/own commit -q --allow-empty -S -m "own $i" || exit 1
	c=$(date +%s%N); git reset -q --soft HEAD~1
	echo $((b-a)) $((c-b))
done`

// BenchmarkSigned measures what a signature under a lease takes beyond what ssh-keygen takes for the same.
func BenchmarkSigned(b *testing.B) {
	const rounds = 40
	d := newDaemon(b)
	d.ownWork()
	d.mustStart(unlimited...)
	d.inWorkspace()
	d.signedRepository()
	d.signingKey("ssh")
	lease := func(a palyra.Approval) client.DecideRequest {
		r := yes(a)
		if a.Plan.Tool == "palyra.sign" {
			r.Scope, r.TTL, r.Widen = palyra.ScopeTimeboxed, time.Hour, palyra.WidenBranch
		}
		return r
	}
	for b.Loop() {
		out, all := d.answering(d.using([]string{"commits"}, "set -- "+strconv.Itoa(rounds)+"\n"+signLoop), lease)
		if out.ExitCode != 0 || len(ofSignatures(all)) > 1 {
			b.Fatalf("%d questions: %+v", len(ofSignatures(all)), out)
		}
		var lent, own []float64
		for line := range strings.Lines(out.Stdout) {
			if w := strings.Fields(line); len(w) == 2 {
				x, _ := strconv.ParseFloat(w[0], 64)
				y, _ := strconv.ParseFloat(w[1], 64)
				lent, own = append(lent, x/1e6), append(own, y/1e6)
			}
		}
		slices.Sort(lent)
		slices.Sort(own)
		if len(lent) != rounds {
			b.Fatalf("%+v", out)
		}
		b.ReportMetric(lent[rounds/2], "lent-ms")
		b.ReportMetric(own[rounds/2], "own-ms")
		b.ReportMetric(lent[rounds/2]-own[rounds/2], "beyond-ms")
	}
	b.ReportMetric(0, "ns/op")
}
