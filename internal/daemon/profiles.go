package daemon

import (
	"fmt"
	"net/http"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"time"
)

// profileRoutes serves what `go tool pprof` and `go tool trace` read, at the usual paths. net/http/pprof would do it as
// well, but everything that a package sets up is set up by every short command too.
func profileRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /debug/pprof/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintln(w, "profile?seconds=N\ntrace?seconds=N")
		for _, p := range pprof.Profiles() {
			fmt.Fprintf(w, "%s?debug=1\t%d\n", p.Name(), p.Count())
		}
	})
	mux.HandleFunc("GET /debug/pprof/{name}", serveProfile)
	mux.HandleFunc("GET /debug/pprof/profile", func(w http.ResponseWriter, r *http.Request) {
		during(w, r, 30, func() error { return pprof.StartCPUProfile(w) }, pprof.StopCPUProfile)
	})
	mux.HandleFunc("GET /debug/pprof/trace", func(w http.ResponseWriter, r *http.Request) {
		during(w, r, 1, func() error { return trace.Start(w) }, trace.Stop)
	})
}

func serveProfile(w http.ResponseWriter, r *http.Request) {
	p := pprof.Lookup(r.PathValue("name"))
	if p == nil {
		http.Error(w, "there is no such profile", http.StatusNotFound)
		return
	}
	if r.FormValue("gc") != "" && p.Name() == "heap" {
		runtime.GC()
	}
	debug, _ := strconv.Atoi(r.FormValue("debug")) // 0: binary
	if debug != 0 {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	} else {
		w.Header().Set("Content-Type", "application/octet-stream")
	}
	_ = p.WriteTo(w, debug) // the client went away
}

// during collects for as long as the request says, or until the client goes away.
func during(w http.ResponseWriter, r *http.Request, seconds float64, start func() error, stop func()) {
	if s, err := strconv.ParseFloat(r.FormValue("seconds"), 64); err == nil && s > 0 {
		seconds = s
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	if err := start(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	select {
	case <-r.Context().Done():
	case <-time.After(time.Duration(seconds * float64(time.Second))):
	}
	stop()
}
