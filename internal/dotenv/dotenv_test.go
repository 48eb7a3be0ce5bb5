package dotenv

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

var masker = Masker{Key: []byte("a key of tests, 32 bytes long ..."), Workspace: "/w"}

// hidden is text whose placeholders are all alike.
func hidden(text string) string { return placeholder().ReplaceAllString(text, "MASKED") }

func TestMask(t *testing.T) {
	const s = "sk-live-0123456789" // a secret
	for in, want := range map[string]string{
		"":                                     "",
		"PORT=3000\n":                          "PORT=3000\n",
		"PORT=3000":                            "PORT=3000",
		"KEY=" + s:                             "KEY=MASKED",
		"KEY=" + s + "\n":                      "KEY=MASKED\n",
		"KEY=" + s + "\r\nPORT=1\r\n":          "KEY=MASKED\r\nPORT=1\r\n",
		"\ufeffKEY=" + s + "\n":                "\ufeffKEY=MASKED\n",
		"export KEY=" + s + "\n":               "export KEY=MASKED\n",
		"  export\tKEY = " + s + "  \nA=b\n":   "  export\tKEY = MASKED  \nA=b\n",
		"KEY: " + s + "\n":                     "KEY: MASKED\n",
		"KEY='" + s + "'\n":                    "KEY='MASKED'\n",
		`KEY="` + s + `" # why` + "\n":         `KEY="MASKED" # why` + "\n",
		"KEY=`" + s + "`\n":                    "KEY=`MASKED`\n",
		`KEY="a\"` + s + `"` + "\nA=b\n":       `KEY="MASKED"` + "\nA=b\n",
		"KEY=\"one\ntwo\nthree\nfour\"\nA=b":   "KEY=\"MASKED\"\nA=b",
		"KEY=" + s + " # the key\nA=b # c\n":   "KEY=MASKED # the key\nA=b # c\n",
		"KEY=" + s + "#more\n":                 "KEY=MASKED\n",
		`KEY="a"` + s + "\nA=b\n":              "KEY=MASKED\nA=b\n",
		"KEY=abc\xff\xfe" + s + "\nA=b\n":      "KEY=MASKED\nA=b\n",
		"# a comment about things\n\n \t\n":    "# a comment about things\n\n \t\n",
		"#KEY=" + s + "\n# KEY='" + s + "'\n":  "#KEY=MASKED\n# KEY='MASKED'\n",
		"# old: " + s + "\n":                   "# old: MASKED\n",
		"# https://example.com/docs/v2/a\n":    "# https://example.com/docs/v2/a\n",
		"# ftp://me:secret9@example.com/a\n":   "# MASKED\n",
		"URL=postgres://u:p@localhost/db\n":    "URL=MASKED\n",
		"N=1700000000000\nF=-12.5e10\n":        "N=1700000000000\nF=-12.5e10\n",
		"N=123456789012345678901\n":            "N=MASKED\n",
		"B=true\nC=false\nENV=development\n":   "B=true\nC=false\nENV=development\n",
		"EMPTY=\nQ=\"\"\nX=''\nexport FOO\nA":  "EMPTY=\nQ=\"\"\nX=''\nexport FOO\nA",
		"A=b\nKEY=" + s + "\n# not " + s + "x": "A=b\nKEY=MASKED\n# not MASKED",
		"A=1\nwhat is this\nPORT=1\n":          "A=1\n" + unreadable,
		"A=1\nKEY=\"never closed\nPORT=1\n":    "A=1\nKEY=\n" + unreadable,
		"A=1\nMIIEvQIBADANBgkqhkiG9w\nB=2\n":   "A=1\n" + unreadable,
		"A=1\n# x\rKEY=" + s + "\n":            "A=1\n" + unreadable,
		"A=1\n# x\u2028KEY=" + s + "\n":        "A=1\n" + unreadable,
		"\xff\xfeK\x00E\x00Y\x00":              unreadable,
		"K=don't look at me\nB=it's\n":         "K=MASKED\nB=it's\n",
		"K= #" + s + "\n":                      "K= #MASKED\n",
		"A.b-c=" + s:                           "A.b-c=MASKED",

		// What others read otherwise is not shown: one secret without a name, values over several lines, and remarks that are none.
		"c2VjcmV0dG9rZW4xMjM0NTY3ODkwYWJjZGVmZ2g=\n":        unreadable,
		"A=1\nJBSWY3DPEHPK3PXPJBSWY3DP====\nB=2\n":          "A=1\n" + unreadable,
		"c2VjcmV0dG9rZW4xMjM0NTY3ODkwYWJjZGVmZ2g= # mine\n": unreadable,
		"c2VjcmV0dG9rZW4xMjM0NTY3ODkwYWJjZGVmZ2g: \n":       unreadable,
		"# c2VjcmV0dG9rZW4xMjM0NTY3ODkwYWJjZGVmZ2g=\nA=1\n": "# MASKED\nA=1\n",
		"AWS_S3_BUCKET_NAME=\nA=1\n":                        "AWS_S3_BUCKET_NAME=\nA=1\n",
		"PASS=abcdefghi\\\njklmnopqr\n":                     "PASS=\n" + unreadable,
		"PASS=abcdefghi\\\r\njklmnopqr\n":                   "PASS=\n" + unreadable,
		"PASS=\"abcdefg\"h\\\njklmnopqr\n":                  "PASS=\n" + unreadable,
		"SECRET=\n  abcdefghijk\n  lmnopqrstuv\n":           "SECRET=\n" + unreadable,
		"SECRET=\nabcdefghijk\nlmnopqrstuv\n":               "SECRET=\n" + unreadable,
		"SECRET=\n\n# x\nabcdefghijk\n":                     "SECRET=\n\n# x\n" + unreadable,
		"SECRET=abc\n  abcdefghijk\n":                       "SECRET=abc\n" + unreadable,
		"A=1\nabcdefghijk\nlmnopqrstuv\n":                   "A=1\nabcdefghijk\n" + unreadable,
		"A=1\nFOO\nB=2\nBAR\n":                              "A=1\nFOO\nB=2\nBAR\n",
		"export ghp_abcdefghijklmnopqrstuvwxyz0123456789\n": unreadable,
		"PASS=abc #defghijklmnop\n":                         "PASS=abc #MASKED\n",
		"PASS=abcdefgh # ijkl mnop\nA=1\n":                  "PASS=abcdefgh # MASKED\nA=1\n",
		"PASS='abc' #defghijklmnop\n":                       "PASS='abc' #MASKED\n",
		"PASS=1234 #defghijklmnop\n":                        "PASS=1234 #MASKED\n",
		"PORT=3000 # where the server listens\n":            "PORT=3000 # where the server listens\n",
		"DEBUG=true # not in production\nE= # is empty\n":   "DEBUG=true # not in production\nE= # is empty\n",
	} {
		if got := hidden(string(masker.Mask(".env", []byte(in)))); got != want {
			t.Errorf("%q\n got %q\nwant %q", in, got, want)
		}
	}
}

// A placeholder is the same for the same value of the same variable in the same file with the same key, and for nothing else.
func TestPlaceholder(t *testing.T) {
	const text = "KEY=secretsecret1\n"
	mask := func(m Masker, path, text string) string { return string(m.Mask(path, []byte(text))) }
	one := mask(masker, ".env", text)
	if again := mask(masker, ".env", text); again != one {
		t.Errorf("%q and %q", one, again)
	}
	if !Carries([]byte(one)) || Carries([]byte("KEY=palyra-masked-")) || len(one) != len("KEY=\n")+len(Prefix)+letters {
		t.Errorf("%q", one)
	}
	other, key := masker, masker
	other.Workspace, key.Key = "/x", []byte("another")
	seen := map[string]bool{one[4:]: true}
	for _, text := range []string{
		mask(masker, ".env", "KEY=secretsecret2\n"), mask(masker, ".env", "KEX=secretsecret1\n"), mask(other, ".env", text),
		mask(key, ".env", text), mask(masker, "guess.env", text), mask(masker, "a/.env", text), mask(masker, ".env", "A=1\n"+text)[4:],
	} {
		if seen[text[4:]] {
			t.Errorf("%q stands for two", text)
		}
		seen[text[4:]] = true
	}
}

// Nobody finds a value out by writing guesses into a file, under another name or in the place of the first, and comparing what stands
// for them.
func TestGuesses(t *testing.T) {
	const line = "DATABASE_URL=postgres://app:%s@db/prod\n"
	shown := placeholder().FindString(string(masker.Mask(".env", fmt.Appendf(nil, line, "hunter2"))))
	var guesses []byte
	for _, w := range []string{"password", "letmein", "hunter1", "hunter2", "hunter3"} {
		guesses = fmt.Appendf(guesses, line, w)
	}
	for _, path := range []string{"guess.env", ".env", "a/.env", ".env.local"} {
		if copied := masker.Mask(path, guesses); shown == "" || bytes.Contains(copied, []byte(shown)) {
			t.Errorf("guesses in %s: %q is in %q", path, shown, copied)
		}
	}
}

// A change shows which values it leaves, by placeholders that stand nowhere else.
func TestMaskBoth(t *testing.T) {
	was, is := masker.MaskBoth(".env", []byte("A=secretsecret1\nB=secretsecret2\n"), []byte("A=secretsecret1\nB=secretsecret3\n"))
	a, b := placeholder().FindAllString(string(was), -1), placeholder().FindAllString(string(is), -1)
	if len(a) != 2 || len(b) != 2 || a[0] != b[0] || a[1] == b[1] {
		t.Errorf("%q becomes %q", was, is)
	}
	if alone := masker.Mask(".env", []byte("A=secretsecret1\nB=secretsecret2\n")); bytes.Contains(alone, []byte(a[0])) {
		t.Errorf("%q is in %q too", a[0], alone)
	}
	large := bytes.Repeat([]byte("x"), MaxFile+1)
	if was, is = masker.MaskBoth(".env", large, []byte("A=secretsecret1\n")); string(was) != tooLarge || hidden(string(is)) != "A=MASKED\n" {
		t.Errorf("%q, %q", was, is)
	}
}

func TestKnown(t *testing.T) {
	m := masker
	m.Known = func(name string, value []byte) (string, bool) {
		if name == "PIN" && (string(value) == "1234" || string(value) == "123456789012") || string(value) == "vault:pin" {
			return "vault:pin", true
		}
		return "", false
	}
	in := "PIN=123456789012\nPORT=123456789012\nK=secretsecret12\n"
	if got := hidden(string(m.Mask(".env", []byte(in)))); got != "PIN=vault:pin\nPORT=vault:pin\nK=MASKED\n" {
		t.Errorf("%q", got)
	}
	// A short one is not asked about: whoever writes all there are would see which it is.
	if got := string(m.Mask(".env", []byte("PIN=1233\nPIN=1234\nPIN=1235\n"))); got != "PIN=1233\nPIN=1234\nPIN=1235\n" {
		t.Errorf("%q", got)
	}
}

func TestTooLarge(t *testing.T) {
	big := bytes.Repeat([]byte("PORT=3000\n"), MaxFile/10+1)
	if got := string(masker.Mask(".env", big)); got != tooLarge || string(masker.Mask(".env", []byte(got))) != got {
		t.Errorf("%.100q", got)
	}
	if got := masker.Mask(".env", big[:MaxFile]); len(got) != MaxFile {
		t.Errorf("%d bytes", len(got))
	}
}

func TestNames(t *testing.T) {
	n, err := NewNames([]string{"*.secrets", "Config.INI"})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(".env .ENV .env.local .env.production prod.env .env.example.local .env-dev .env_dev " +
		"x.secrets config.ini a\xffb.env .env. .env~ prod.env~ .env1 .envrc .environment prod.env.bak #.env# .#.env .#prod.env PROD.ENV~ " +
		".env@prod prod.env-old prod.env2 a.envx.env.b .env.~1~ x.secrets~ .env.example.bak") {
		if !n.Count(name) {
			t.Errorf("%q does not count", name)
		}
	}
	if !n.Count(".env copy") || !n.Count(".env (1)") {
		t.Error("a copy with a blank in its name does not count")
	}
	for _, name := range strings.Fields("env .env.example .env.sample .env.template prod.env.example .ENV.Example environment " +
		"a.envx secrets .venv vite-env.d.ts .env.example~") {
		if n.Count(name) {
			t.Errorf("%q counts", name)
		}
	}
	for _, bad := range []string{"", "*", "a/b", "[", "..", strings.Repeat("x", 256)} {
		if _, err := NewNames([]string{bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if _, err := NewNames(make([]string, maxMore+1)); err == nil {
		t.Error("too many are taken")
	}
}

// Whatever a file is: masking ends, the copy of a copy is the copy, and no masked value is left in it.
func TestSecrets(t *testing.T) {
	var got []string
	for _, v := range Secrets([]byte("A=a long enough value\nexport B='another long value'\nPORT=123456789012\nS=short\n" +
		"A=the last value of A\nM=" + Prefix + "abcdefghijklmnopqrst\n")) {
		got = append(got, v.Name+"="+string(v.Value))
	}
	if want := "A=the last value of A|B=another long value"; strings.Join(got, "|") != want {
		t.Errorf("%q", got)
	}
}

func FuzzMask(f *testing.F) {
	for _, s := range []string{
		"KEY=secretsecret12\n# secretsecret12\nX=\"multi\nline value\"\r\n", "A==palyra-mask\n", "export K='a'\"b\"\n",
		"\ufeffA: b\n#A=bbbbbbbbbbbbbbbbb",
		"K=\"x\ny=secretsecret\"\nx\ny=secretsecret\n", "K=`a", "palyra-masked-aaaaaaaaaaaaaaaaaaaa\n",
		"K=a #bcdefghijklmnop\n", "K=\n a\n", "c2VjcmV0dG9rZW4xMjM0NTY3ODkw=\n", "K=a\\\nb\n", "K='a' ##bcdefghijklm #\n",
		"K=palyra-masked-aaaaaaaaaaaaaaaaaaaab",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		out := masker.Mask(".env", text)
		if again := masker.Mask(".env", out); !bytes.Equal(again, out) && len(out) <= MaxFile {
			t.Errorf("%q becomes %q becomes %q", text, out, again)
		}
		left := placeholder().ReplaceAll(out, []byte{0})
		values, cut := read(text)
		for _, s := range values {
			v := text[s.from:s.to]
			if s.to <= cut && !plain(string(v)) && bytes.Contains(left, v) && !bytes.Contains([]byte(unreadable), v) {
				t.Errorf("%q is left in %q of %q", v, out, text)
			}
		}
	})
}
