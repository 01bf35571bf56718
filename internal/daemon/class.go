package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"syscall"

	"wsfs/store"
)

// ClassRequest asks which paths have which class, or changes that: one thing of it.
type ClassRequest struct {
	Class    string   `json:"class,omitempty"`
	Patterns []string `json:"patterns,omitempty"` // that belong to Class from now on
	Limit    string   `json:"limit,omitempty"`    // what Class keeps from now on, as store.ParseClassLimit reads it
	Remove   []string `json:"remove,omitempty"`   // patterns
	Reset    bool     `json:"reset,omitempty"`    // as in a new store
}

// ClassReply is the rules, those that decide last.
type ClassReply struct {
	Own     bool        `json:"own"` // somebody said something; else they are those of a new store
	Classes []ClassKept `json:"classes"`
	Rules   []ClassRule `json:"rules"`
}

// ClassKept is what a class keeps.
type ClassKept struct {
	Class string `json:"class"`
	Keep  string `json:"keep"`
}

// ClassRule is a pattern and its class.
type ClassRule struct {
	Class   string `json:"class"`
	Pattern string `json:"pattern"`
}

// Classes reads or changes which paths have which class.
func (c *Client) Classes(ctx context.Context, req ClassRequest) (ClassReply, error) {
	var out ClassReply
	return out, c.do(ctx, http.MethodPost, "/v1/classes", req, &out)
}

func (d *Daemon) classes(ctx context.Context, req ClassRequest) (ClassReply, error) {
	c, own, err := d.st.Classes(ctx)
	if err != nil {
		return ClassReply{}, err
	}
	changed, set := false, &c
	switch {
	case req.Reset:
		changed, set, own = own, nil, false
	case len(req.Remove) > 0:
		for _, p := range req.Remove {
			if !c.Unset(p) {
				return ClassReply{}, Fail(ExitNothing, "class: there is no rule for %q", p)
			}
		}
		changed = true
	case req.Limit != "":
		var l store.ClassLimit
		if l, err = store.ParseClassLimit(req.Limit); err == nil {
			changed = c.Limits[store.PathClass(req.Class)] != l
			c.Limits[store.PathClass(req.Class)] = l
		}
	case len(req.Patterns) > 0:
		for _, p := range req.Patterns {
			if c.Set(store.PathClass(req.Class), p) {
				changed = true
			}
		}
	default:
		return classReply(&c, own), nil
	}
	if err == nil && !changed {
		return classReply(&c, own), Fail(ExitNothing, "class: it is so already")
	}
	if err == nil {
		err = d.st.SetClasses(ctx, set)
	}
	if err != nil {
		if errors.Is(err, syscall.EINVAL) {
			err = &Error{ExitUsage, err}
		}
		return ClassReply{}, fmt.Errorf("class: %w", err)
	}
	d.log.Info("the classes of paths were changed", "class", req.Class, "patterns", req.Patterns, "limit", req.Limit, "removed", req.Remove, "reset", req.Reset)
	if set == nil {
		c = store.DefaultClasses()
	} else {
		own = true
	}
	return classReply(&c, own), nil
}

func classReply(c *store.Classes, own bool) ClassReply {
	out := ClassReply{Own: own}
	for _, name := range store.ClassNames() {
		k := ClassKept{Class: string(name), Keep: "as `wsfs retain` says"}
		if l, ok := c.Limit(name); ok {
			k.Keep = l.String()
		}
		out.Classes = append(out.Classes, k)
	}
	for _, r := range c.Rules {
		out.Rules = append(out.Rules, ClassRule{string(r.Class), r.Pattern})
	}
	return out
}
