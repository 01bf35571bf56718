package main

// saveStyle is a way in which programs save a file. Its script runs in a directory of its own, by `bash -eu`, with f as
// the file and with
//
//	$NEW          a file with the new text          $OUT      a directory outside of the mount
//	$FROM, $TO    the line that changes             $SED      a sed script that does the edit
//	$TAIL         a file with the lines to append   $R        the number of the save, from 1
//	$OFF, $LINE   where $FROM is, in bytes, and a file with $TO
//	$SIZE         of the new text
type saveStyle struct {
	name  string
	edit  editKind
	needs string // a program
	setup string // runs in the directory before it is imported, with the texts as $TEXTS/0, 1, ...
	save  string
}

type editKind int

const (
	anyEdit  editKind = iota // a line changes, one is put in, one goes, one is appended
	oneLine                  // a line changes
	sameSize                 // a line changes into one of the same length
	appended                 // a line is appended
	cutOff                   // the last line goes
)

const gitSetup = `git init -q -b main .; for i in $TEXTS/*; do cp $i f; git add f; git commit -qm x; git tag r${i##*/}; done; git checkout -q r0`

var saveStyles = []saveStyle{
	{"write", anyEdit, "", "", `cat $NEW > f`},
	{"append", appended, "", "", `cat $TAIL >> f`},
	{"append many", appended, "", "", `while read -r line; do echo "$line" >> f; done < $TAIL`},
	{"tee", anyEdit, "", "", `tee f < $NEW > /dev/null`},
	{"remove and write", anyEdit, "", "", `rm f; cat $NEW > f`},
	{"move away and write", anyEdit, "", "", `mv f f~; cat $NEW > f`},
	{"other name", anyEdit, "", "ln f other", `cat $NEW > other`},
	{"through a link", anyEdit, "", "ln -s f link", `cat $NEW > link`},
	{"in a moved directory", anyEdit, "", "", `cd ..; mv "$D" "$D.moved"; cat $NEW > "$D.moved/f"; mv "$D.moved" "$D"`},
	{"sed -i", anyEdit, "", "", `sed -i -f $SED f`},
	{"sed -i with backup", anyEdit, "", "", `sed -i.bak -f $SED f`},
	{"perl -i", oneLine, "perl", "", `perl -i -pe 's/^\Q$ENV{FROM}\E$/$ENV{TO}/' f`},
	{"ed", oneLine, "ed", "", `printf ',s/^%s$/%s/\nw\nq\n' "$FROM" "$TO" | ed -s f`},
	{"vim", anyEdit, "vim", "", byVim("")},
	{"vim backupcopy=yes", anyEdit, "vim", "", byVim("backup backupcopy=yes")},
	{"vim backupcopy=no", anyEdit, "vim", "", byVim("backup backupcopy=no")},
	{"vim backupcopy=breakhardlink", anyEdit, "vim", "ln f other", byVim("backup backupcopy=auto,breakhardlink")},
	{"vim nowritebackup", anyEdit, "vim", "", byVim("nobackup nowritebackup")},
	{"git checkout", anyEdit, "git", gitSetup, `git checkout -q r$R`},
	{"git checkout of a path", anyEdit, "git", gitSetup, `git checkout -q r$R -- f`},
	{"git reset", anyEdit, "git", gitSetup, `git reset -q --hard r$R`},
	{"git merge", anyEdit, "git", gitSetup, `git merge -q --ff-only r$R`},
	{"git cherry-pick", anyEdit, "git", gitSetup, `git cherry-pick r$R > /dev/null`},
	{"git apply", anyEdit, "git", gitSetup, `git diff r$((R-1)) r$R > $OUT/d; git apply $OUT/d`},
	{"git stash", anyEdit, "git", gitSetup, `git restore -s r$R f; git stash -q; git stash pop -q; git restore --staged f`},
	{"tar", anyEdit, "tar", "", byTar("")},
	{"tar --overwrite", anyEdit, "tar", "", byTar("--overwrite")},
	{"tar --unlink-first", anyEdit, "tar", "", byTar("--unlink-first")},
	{"cp", anyEdit, "", "", `cp $NEW f`},
	{"cp -p", anyEdit, "", "", `cp -p $NEW f`},
	{"cp -f, read-only", anyEdit, "", "chmod 444 f", `cp -f $NEW f`},
	{"cp --remove-destination", anyEdit, "", "", `cp --remove-destination $NEW f`},
	{"cp --backup", anyEdit, "", "", `cp --backup=numbered $NEW f`},
	{"install", anyEdit, "", "", `install -m 644 $NEW f`},
	{"install -b", anyEdit, "", "", `install -b -m 644 $NEW f`},
	{"mv", anyEdit, "", "", `cp $NEW t; mv t f`},
	{"mv from outside", anyEdit, "", "", `cp $NEW $OUT/t; mv $OUT/t f`},
	{"mv from another directory", anyEdit, "", "", `mkdir -p d; cp $NEW d/t; mv d/t f`},
	{"mv with a link as backup", anyEdit, "", "", `ln -f f f~; cp $NEW t; mv t f`},
	{"ln -f", anyEdit, "", "", `cp $NEW t; ln -f t f; rm t`},
	{"node writeFile", anyEdit, "node", "", `node -e 'const fs=require("fs"); fs.writeFile("f", fs.readFileSync(process.env.NEW), e => { if (e) throw e })'`},
	{"node rename", anyEdit, "node", "", `node -e 'const fs=require("fs"); fs.writeFileSync("f."+process.pid, fs.readFileSync(process.env.NEW)); fs.renameSync("f."+process.pid, "f")'`},
	{"node appendFile", appended, "node", "", `node -e 'const fs=require("fs"); fs.appendFileSync("f", fs.readFileSync(process.env.TAIL))'`},
	{"python write", anyEdit, "python3", "", byPython(`open("f","w").write(new)`)},
	{"python os.replace", anyEdit, "python3", "", byPython(`t=open("f.tmp","w"); t.write(new); t.flush(); os.fsync(t.fileno()); t.close(); os.replace("f.tmp","f")`)},
	{"python fileinput", oneLine, "python3", "", byPython(`[print(os.environ["TO"] if l.rstrip("\n")==os.environ["FROM"] else l, end="\n" if l.rstrip("\n")==os.environ["FROM"] else "") for l in fileinput.input("f", inplace=True)]`)},
	{"python r+", anyEdit, "python3", "", byPython(`f=open("f","r+"); f.write(new); f.truncate()`)},
	{"python mmap", sameSize, "python3", "", byPython(`f=open("f","r+b"); m=mmap.mmap(f.fileno(),0); l=os.environ["TO"].encode(); o=int(os.environ["OFF"]); m[o:o+len(l)]=l; m.flush(); m.close()`)},
	{"rsync", anyEdit, "rsync", "", `rsync -I $NEW f`},
	{"rsync --inplace", anyEdit, "rsync", "", `rsync -I --inplace --no-whole-file $NEW f`},
	{"rsync --backup", anyEdit, "rsync", "", `rsync -I --backup $NEW f`},
	{"patch", anyEdit, "patch", "", `diff -u f $NEW > $OUT/p || patch -s f $OUT/p`},
	{"patch -b", anyEdit, "patch", "", `diff -u f $NEW > $OUT/p || patch -s -b f $OUT/p`},
	{"dd", sameSize, "", "", `dd if=$LINE of=f bs=1 seek=$OFF conv=notrunc status=none`},
	{"truncate", cutOff, "", "", `truncate -s $SIZE f`},
	{"sort -o", oneLine, "", "", `sort -s -k 99 -o f $NEW`},
	{"awk", oneLine, "awk", "", `awk '{ print ($0 == ENVIRON["FROM"] ? ENVIRON["TO"] : $0) }' f > t && cat t > f && rm t`},
}

func byVim(set string) string {
	c := `vim -u NONE -N -es -c 'set backupskip= directory=. backupdir=.' `
	if set != "" {
		c += `-c 'set ` + set + `' `
	}
	return c + `-c 'silent %d _' -c "silent 0r $NEW" -c wq f < /dev/null`
}

func byTar(how string) string {
	return `cp $NEW $OUT/f; tar -C $OUT -cf $OUT/t.tar f; tar -xf $OUT/t.tar ` + how
}

func byPython(code string) string {
	return `python3 -c 'import os, sys, mmap, fileinput; new=open(os.environ["NEW"]).read(); ` + code + `'`
}
