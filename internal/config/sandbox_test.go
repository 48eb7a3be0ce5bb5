package config

import "testing"

func TestSandboxValues(t *testing.T) {
	for key, values := range map[string]struct{ good, bad []string }{
		"process.tier":     {[]string{"b", "c", "off"}, []string{"", "a", "C"}},
		"process.bwrap":    {[]string{"/usr/bin/bwrap"}, []string{"bwrap", "/usr/../bwrap"}},
		"process.posture":  {[]string{"off", "require"}, []string{"on", ""}},
		"process.unproven": {[]string{"off", "seatbelt", "jobobject"}, []string{"on", "", "bubble"}},
		"egress.mode":      {[]string{"strict", "preflight", "none"}, []string{"off", ""}},
		"egress.allowed_hosts": {
			[]string{"example.org", "*.example.org:443", "a.b,c.d:80"},
			[]string{"Example.org", "*", "*.", "a:0", "a:70000", "a:b", "a/b", "a b", ":443"},
		},
		"egress.private_ranges": {[]string{"10.0.0.0/8", "fd00::/8"}, []string{"10.0.0.1/8", "10.0.0.0", "x"}},
		"egress.ask":            {[]string{"on", "off"}, []string{"true"}},
		"egress.resolver":       {[]string{"", "192.0.2.1:53", "[2001:db8::1]:53"}, []string{"192.0.2.1", "dns.example:53", "192.0.2.1:0"}},
		"egress.upstream": {
			[]string{"", "http://proxy.example:3128", "socks5://10.0.0.1:1080"},
			[]string{"https://p:1", "http://p", "http://u:secret@p:1", "http://p:1/x", "p:1"},
		},
	} {
		for _, v := range values.good {
			if _, err := Load(Options{
				Home: t.TempDir(), Env: []string{}, SystemFile: "/nonexistent",
				Flags: map[string]string{key: v},
			}); err != nil {
				t.Errorf("%s = %q: %v", key, v, err)
			}
		}
		for _, v := range values.bad {
			if _, err := Load(Options{
				Home: t.TempDir(), Env: []string{}, SystemFile: "/nonexistent",
				Flags: map[string]string{key: v},
			}); err == nil {
				t.Errorf("%s = %q is accepted", key, v)
			}
		}
	}
}

// A tier that nobody has shown to hold is in the snapshot of every call that it counts
// for; without it snapshots are as they were before there was the setting.
func TestUnprovenIsInTheSnapshot(t *testing.T) {
	c := Default()
	if v, ok := c.Snapshot().ProcessRunner["unproven"]; ok {
		t.Errorf("off is told as %v", v)
	}
	c.Process.Unproven = "seatbelt"
	if v := c.Snapshot().ProcessRunner["unproven"]; v != "seatbelt" {
		t.Errorf("it is told as %v", v)
	}
}

// Where values of .env files are shown is in the snapshot of every call; where they are masked everywhere snapshots are as
// they were before there was the setting.
func TestUnmaskedFilesAreInTheSnapshot(t *testing.T) {
	c := Default()
	if v, ok := c.Snapshot().ProcessRunner["dotenv"]; ok {
		t.Errorf("the default is told as %v", v)
	}
	before, _ := c.Snapshot().Digest()
	for _, d := range []Dotenv{{Mask: "off"}, {Mask: "on", Unmasked: []string{"/w"}}, {Mask: "on", Names: []string{"secrets.txt"}}} {
		c.Dotenv = d
		if now, err := c.Snapshot().Digest(); err != nil || now == before {
			t.Errorf("%+v is not told: %v", d, err)
		}
	}
}
