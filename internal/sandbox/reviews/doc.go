// Package reviews has the work of agents, which lies on their stages until a person keeps or drops it: it lists it, shows
// it, chooses parts of it and drops them. Who keeps a part has the stages that it is kept by.
package reviews
