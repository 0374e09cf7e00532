exec(open("dbg.py").read().split("r=solve_mi_svm_primal(")[0].replace("make_bags(1000,100,bag_size=(10,30),flip_y=.05,random_state=0)","make_bags(1000,random_state=0)"))
mp._MAX_PASSES=14
r=solve_mi_svm_primal(ArraySource(X.instances,X.offsets),s,np.full(len(s),1.),"instance","auto",SolverOptions(1e-6,100),1e-3)
print(r.objective,r.dual_gap/r.objective,r.stopped,r.n_iter,r.n_passes,r.history)
