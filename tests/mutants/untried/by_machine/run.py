"""run.py BIN COVER.json CWD OUT.json IDS-or-'all' [workers]"""
import subprocess,sys,json,time,os,concurrent.futures as cf,threading,signal
bin_,cover,cwd,out,ids=sys.argv[1:6]; workers=int(sys.argv[6]) if len(sys.argv)>6 else 4
L=json.load(open('scratch/list.json')); skip=json.load(open('scratch/skip.json')); spans=json.load(open('scratch/spans.json'))
built={n for v in spans.values() for _,_,n in v}
C=json.load(open(cover))
lo={}
groups={}
for n,m in enumerate(L,1):
    if m.get('function'): groups.setdefault((m['file'],json.dumps(m['function']['span'])),[]).append(n)
for g in groups.values():
    for n in g: lo[n]=min(g)
by={}
for t,r in C.items():
    if r['rc']!=0: continue
    for n in r['reach']: by.setdefault(n,[]).append((r['s'],t))
R=json.load(open(out)) if os.path.exists(out) else {}
want=[n for n in (json.load(open(ids)) if ids!='all' else sorted(built)) if n in built and str(n) not in R]
print(len(want),'to run',flush=True)
import collections
kills={}
lock=threading.Lock(); flakes=[]
def go(n,tests,limit):
    p=subprocess.Popen([bin_,'-Zunstable-options','--fail-fast','--test-threads',os.environ.get('TT','2'),'--exact']+tests,cwd=cwd,stdout=subprocess.PIPE,stderr=subprocess.STDOUT,text=True,errors='replace',start_new_session=True,
        env=dict(os.environ,MUTANT=str(n),RUSTC_BOOTSTRAP='1',CARGO_MANIFEST_DIR=cwd,RUST_BACKTRACE='0',PROPTEST_FAILURE_PERSISTENCE='off'))
    try:
        o,_=p.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(p.pid,signal.SIGKILL); p.communicate(); return 'timeout',''
    try: os.killpg(p.pid,signal.SIGKILL)
    except ProcessLookupError: pass
    if p.returncode==0: return 'lived',''
    failed=[l.split()[1] for l in o.splitlines() if l.startswith('test ') and l.endswith('FAILED')]
    return 'caught',(failed or [o[-200:]])[0]
DIFF='fake::store::differential::every_branch_of_every_script_is_taken'
diff_reach=set(C[DIFF]['reach']) if DIFF in C else set()
import select
def diff(n,limit):
    # Kill at the first panic: what comes after it is proptest's shrinking.
    p=subprocess.Popen([bin_,'--exact',DIFF,'--nocapture'],cwd=cwd,stdout=subprocess.PIPE,stderr=subprocess.STDOUT,start_new_session=True,
        env=dict(os.environ,MUTANT=str(n),CARGO_MANIFEST_DIR=cwd,RUST_BACKTRACE='0'))
    end=time.time()+limit; r='lived'; got=b''
    while time.time()<end:
        if select.select([p.stdout],[],[],1)[0]:
            d=os.read(p.stdout.fileno(),65536); got=(got+d)[-100000:]
            if b'panicked at' in got: r='caught';break
            if not d:
                p.wait(); r='lived' if p.returncode==0 else 'caught'; break
    else: r='capped'
    try: os.killpg(p.pid,signal.SIGKILL)
    except ProcessLookupError: pass
    p.wait(); return r
def one(n):
    b=time.time(); d=None
    if os.environ.get('DIFFCAP') and L[n-1]['file'].startswith('src/fake/store') and lo[n] in diff_reach:
        d=diff(n,float(os.environ['DIFFCAP']))
        if d=='caught': return n,dict(result='caught',by=DIFF,s=time.time()-b)
    n,r=one_(n); r['diff']=d; r['s']=time.time()-b; return n,r
def one_(n):
    f=L[n-1]['file']; K=kills.setdefault(f,collections.Counter())
    tests=sorted(((s,t) for s,t in by.get(lo[n],[]) if s<float(os.environ.get('SLOWEST','1e9'))),key=lambda x:x[0]/(1+4*K[x[1]]))
    if not tests: return n,dict(result='unreached')
    cap=float(os.environ.get('CAP','1e9')); acc=0; kept=[]
    for s,t in tests:
        acc+=s
        if acc<=cap or not kept: kept.append((s,t))
    full=len(kept)==len(tests); tests=kept
    chunks=[];cur=[];tot=0
    for s,t in tests:
        if cur and (tot+s>float(os.environ.get('CHUNKS','1.5')) or len(cur)>=int(os.environ.get('CHUNK','40'))): chunks.append((tot,cur));cur=[];tot=0
        cur.append(t);tot+=s
    chunks.append((tot,cur))
    b=time.time()
    for tot,c in chunks:
        r,w=go(n,c,30+8*tot)
        if r=='caught' and os.environ.get('CONFIRM'):
            r2,w2=go(n,[w] if '::' in w else c,30+8*tot)
            if r2=='lived':
                flakes.append((n,w)); print('flake',n,w,flush=True)
                r='lived'
        if r!='lived':
            if r=='caught': K[w]+=1
            return n,dict(result=r,by=w if r=='caught' else c[:3],s=time.time()-b)
    return n,dict(result='lived',full=full,tests=len(tests),s=time.time()-b)
done=0
with cf.ThreadPoolExecutor(workers) as ex:
    for f in cf.as_completed([ex.submit(one,n) for n in want]):
        n,r=f.result()
        with lock:
            R[str(n)]=r; done+=1
            if done%10==0:
                json.dump(R,open(out+'.new','w')); os.replace(out+'.new',out); print(done,time.strftime('%T'),dict(collections.Counter(r['result'] for r in R.values())),flush=True)
json.dump(R,open(out,'w'))
import collections
print(collections.Counter(r['result'] for r in R.values()))
