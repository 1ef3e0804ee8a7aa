"""cover.py BIN OUT.json CWD [skip-prefix..]: each test alone: seconds and the functions it reaches"""
import subprocess,sys,json,time,os,concurrent.futures as cf
bin_,out,cwd=sys.argv[1:4]; skip=sys.argv[4:]
tests=[l[:-6] for l in subprocess.run([bin_,'--list','--format','terse'],capture_output=True,text=True,cwd=cwd).stdout.splitlines() if l.endswith(': test')]
tests=[t for t in tests if not any(t.startswith(s) for s in skip)]
print(len(tests),'tests',flush=True)
def one(t):
    f='./scratch/cov/'+str(abs(hash(t)))+'.'+str(os.getpid())
    if os.path.exists(f):os.remove(f)
    b=time.time()
    try:
        p=subprocess.run([bin_,'--exact',t],cwd=cwd,capture_output=True,text=True,timeout=4.5,start_new_session=True,env=dict(os.environ,MUTANT_COVER=f,CARGO_MANIFEST_DIR=cwd))
        rc=p.returncode
        if rc or '1 passed' not in p.stdout: rc=rc or 'ignored'
    except subprocess.TimeoutExpired: rc='timeout'
    s=time.time()-b
    reach=[int(l.split()[0]) for l in open(f).read().splitlines()] if os.path.exists(f) else []
    if os.path.exists(f):os.remove(f)
    return t,dict(rc=rc,s=s,reach=sorted(set(reach)))
os.makedirs('scratch/cov',exist_ok=True)
with cf.ThreadPoolExecutor(int(os.environ.get("W","4"))) as ex: R=dict(ex.map(one,tests))
json.dump(R,open(out,'w'))
print('not passed',[(t,r['rc']) for t,r in R.items() if r['rc']!=0])
print('slow',sorted(((round(r['s'],1),t) for t,r in R.items()),reverse=True)[:25])
print('sum',sum(r['s'] for r in R.values()))
