package versions

// NamesApart is for tests: what a rollback counts.
var NamesApart = namesApart
