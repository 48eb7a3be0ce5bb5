package config

import (
	"slices"
	"testing"
)

func TestDoorPorts(t *testing.T) {
	var c Config
	c.Remote.Listen, c.Console.Listen = "192.0.2.1:7443", "127.0.0.1:7142"
	if got := c.DoorPorts(); !slices.Equal(got, []int{7443, 7142}) {
		t.Error(got)
	}
	c.Remote.Listen, c.Console.Listen = "off", "127.0.0.1:0"
	if got := c.DoorPorts(); len(got) != 0 {
		t.Error(got)
	}
}
