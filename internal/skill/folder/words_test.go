package folder

import (
	"slices"
	"strings"
	"testing"
)

// What a script starts is found where a command can stand, and nothing else is.
func TestPrograms(t *testing.T) {
	sh := "#!/bin/sh\n" + "set -e\n# curl is not run\nhelper() { jq .; }\nX=1 LC_ALL=C sort < in | uniq -c\nif grep -q a b; " +
		"then cat \"$(dirname \"$0\")/x\"; fi\n" +
		"for i in one two; do sed s/a/b/ $i; done\ncase $1 in\n  build) make all ;;\nesac\nhelper\necho 'wget it' && git status || tar c .\n" +
		"cat <<EOF\nrsync in a text\nEOF\nexec python3 x.py\n"
	got := programs("sh", []byte(sh))
	slices.Sort(got)
	if want := "cat dirname git grep jq make python3 sed sort tar uniq"; strings.Join(got, " ") != want {
		t.Errorf("%q\nwant %q", got, want)
	}
	py := "import subprocess\nsubprocess.run(['git', 'log'])\nos.system('curl http://x')\nsubprocess.check_output(\n  [\"jq\", '.'])\n"
	if got := programs("python3", []byte(py)); strings.Join(got, " ") != "git curl jq" {
		t.Errorf("%q", got)
	}
	if got := programs("node", []byte("execFileSync('convert', [])\nspawn(\"ffmpeg\")\n")); strings.Join(got, " ") != "convert ffmpeg" {
		t.Errorf("%q", got)
	}
}
