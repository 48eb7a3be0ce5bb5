package config

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// setting is one key and what its value may be. Where the value stands, the tags in Config say.
type setting struct {
	key      string
	was      string // its name in earlier versions, which still counts
	text     string
	min, max int64
	check    func(string) error // of a string, or of each entry of a list
}

const day = 24 * 3600_000 // in milliseconds

// settings is every key there is, in the order they are shown.
var settings = slices.Concat(callSettings, policySettings, sandboxSettings, remoteSettings, mcpSettings, modelSettings, daemonSettings)

// callSettings are about calls and who may make them.
var callSettings = []setting{
	{key: "tool_call.max_calls_per_run", text: "calls one run may make", min: 1, max: 1_000_000},
	{key: "tool_call.execution_timeout_ms", text: "how long one call may run", min: 1, max: day},
	{key: "tool_call.output_bytes", text: "output of one call that is kept in full", min: 1024, max: 1 << 30},
	{key: "tool_call.run_timeout_ms", text: "how long one run may last", min: 1, max: 30 * day},
	{key: "tool_call.run_output_bytes", text: "output of all calls of one run", min: 1024, max: 1 << 40},
	{key: "tool_call.parallel_calls", text: "read-only calls of one turn that run at once", min: 1, max: 64},
	{
		key: "tool_call.daily_bytes", text: "what the calls of one caller and day keep of arguments and output", min: 1 << 20, max: 1 << 40,
	},
	{key: "approvals.wait_ms", text: "how long a question waits before it counts as denied", min: 1, max: 7 * day},
	{key: "approvals.max_pending", text: "open questions of one principal", min: 1, max: 1_000_000},
	{
		key: "approvals.daily_bytes", text: "what the questions of one principal and day may keep", min: 1 << 20, max: 1 << 40,
	},
	{key: "approvals.deny_hold_ms", text: "how long a denied plan may not be asked for again", min: 0, max: 7 * day},
	{key: "approvals.once_ttl_ms", text: "how long an answer for one use may rest", min: 1, max: day},
	{key: "approvals.max_ttl_ms", text: "the longest a lease may last", min: 1, max: 365 * day},
	{key: "tools.allowed", text: "tools that may be called", check: name},
	{key: "tools.tool_execute_principals", text: "principals that may call tools", check: name},
	{
		key: "tools.tool_execute_surfaces", was: "tools.tool_execute_channels", check: name,
		text: "surfaces on which tools may be called: cli, room, hook, cron, api, mcp; the last two are a client's own word",
	},
	{key: "sessions.idle_ms", text: "how long a session may rest before it is closed", min: 1, max: 365 * day},
}

// daemonSettings are about the daemon itself.
var daemonSettings = []setting{
	{key: "log.level", text: "debug, info, warn or error", check: oneOf("debug", "info", "warn", "error")},
	{key: "log.format", text: "text or json", check: oneOf("text", "json")},
	{key: "store.path", text: "the state database, when not in its usual place", check: absolute},
}

// find returns the setting of a key, or of one that it had in earlier versions.
func find(key string) (setting, bool) {
	i := slices.IndexFunc(settings, func(s setting) bool { return s.key == key || s.was != "" && s.was == key })
	if i < 0 {
		if s, ok := findGroup(key); ok {
			return s, true
		}
		return findProvider(key)
	}
	return settings[i], true
}

// value is where the setting's value stands: *int64, *string or *[]string.
func (s setting) value(c *Config) any {
	section, field, _ := strings.Cut(s.key, ".")
	if section == groupsSection {
		return c.group(field)
	}
	if section != providersSection {
		return pointer(tagged(tagged(reflect.ValueOf(c).Elem(), section), field))
	}
	name, field, _ := strings.Cut(field, ".")
	return pointer(tagged(reflect.ValueOf(c.provider(name)).Elem(), field))
}

// tagged is the field of a struct that the key names. Every setting has one, which tests make sure of.
func tagged(in reflect.Value, key string) reflect.Value {
	for i := range in.NumField() {
		if in.Type().Field(i).Tag.Get("key") == key {
			return in.Field(i)
		}
	}
	panic("config: no field has the key " + key)
}

// pointer points to a field; a word that is a type of its own is a string here.
func pointer(field reflect.Value) any {
	if field.Kind() == reflect.String {
		return field.Addr().Convert(reflect.TypeFor[*string]()).Interface()
	}
	return field.Addr().Interface()
}

// variable is the name of the setting's environment variable; "" for one of a
// provider or a group, whose name could not be told from the key in it.
func (s setting) variable() string {
	if strings.HasPrefix(s.key, providersSection+".") || strings.HasPrefix(s.key, groupsSection+".") {
		return ""
	}
	return variableOf(s.key)
}

func variableOf(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// errTwice is for a place that sets one thing by its name and by its former one.
func (s setting) errTwice() error {
	return fmt.Errorf("%s is its former name, and both are set", s.was)
}

// parse sets the value from text, as variables and flags give it. Lists are separated by commas.
func (s setting) parse(c *Config, text string) error {
	switch v := s.value(c).(type) {
	case *int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("%s is not a whole number", strconv.Quote(text))
		}
		*v = n
	case *string:
		*v = text
	case *[]string:
		*v = []string{}
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part != "" {
				*v = append(*v, part)
			}
		}
	}
	return nil
}

// take sets the value from a document.
func (s setting) take(c *Config, value any) error {
	switch v := s.value(c).(type) {
	case *int64:
		n, ok := value.(int64)
		if !ok {
			return fmt.Errorf("this must be a whole number, not %s", kindOf(value))
		}
		*v = n
	case *string:
		text, ok := value.(string)
		if !ok {
			return fmt.Errorf("this must be a text in quotes, not %s", kindOf(value))
		}
		*v = text
	case *[]string:
		list, ok := value.([]any)
		if !ok {
			return fmt.Errorf("this must be a list of texts, not %s", kindOf(value))
		}
		*v = []string{}
		for _, entry := range list {
			text, ok := entry.(string)
			if !ok {
				return fmt.Errorf("this must be a list of texts, and has %s in it", kindOf(entry))
			}
			*v = append(*v, text)
		}
	}
	return nil
}

// kindOf names the kind of a value as people do.
func kindOf(value any) string {
	switch value.(type) {
	case int64:
		return "a number"
	case float64:
		return "a number with a fraction"
	case string:
		return "a text"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	case map[string]any:
		return "a section"
	}
	return "a date or time"
}

// problem says what is wrong with the value, or nil.
func (s setting) problem(c *Config) error {
	switch v := s.value(c).(type) {
	case *int64:
		if *v < s.min || *v > s.max {
			return fmt.Errorf("%d is out of range: %d to %d", *v, s.min, s.max)
		}
	case *string:
		return s.check(*v)
	case *[]string:
		if len(*v) > maxList {
			return fmt.Errorf("more than %d entries", maxList)
		}
		for _, entry := range *v {
			if err := s.check(entry); err != nil {
				return err
			}
		}
	}
	return nil
}

// Fits reports whether a daemon would start with the values, as far as each is looked at by itself.
func (c Config) Fits() bool {
	return !slices.ContainsFunc(settings, func(s setting) bool { return s.problem(&c) != nil })
}

const (
	maxList = 1000
	maxName = 256
)

func name(s string) error {
	body := strings.TrimSuffix(s, "*")
	switch {
	case s == "*":
		return nil
	case s == "" || len(s) > maxName || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }):
		return fmt.Errorf("%s is not a name", strconv.Quote(s))
	case strings.Contains(body, "*") || body != s && !strings.HasSuffix(body, "."):
		return fmt.Errorf("%s: a star stands alone or at the end, after a dot", strconv.Quote(s))
	}
	return nil
}

func oneOf(values ...string) func(string) error {
	return func(s string) error {
		if slices.Contains(values, s) {
			return nil
		}
		return fmt.Errorf("%s is not one of %s", strconv.Quote(s), strings.Join(values, ", "))
	}
}

func autoOrAbsolute(s string) error {
	if s == "auto" || s == "off" {
		return nil
	}
	if s == "" {
		return fmt.Errorf("this must be auto, off or a path")
	}
	return absolute(s)
}

func absolute(s string) error {
	if s == "" || filepath.IsAbs(s) && filepath.Clean(s) == s && !strings.ContainsRune(s, 0) {
		return nil
	}
	return fmt.Errorf("%s is not an absolute, clean path", strconv.Quote(s))
}
